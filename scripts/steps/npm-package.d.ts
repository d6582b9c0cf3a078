/** As npm-package.js. */
export function npmPackage(name: string, version: string, integrity: string): Promise<string>;
