/** As check-package.js, which returns sizes and versions. */
export function checkTarball(path: string): Promise<object>;
