/** Returns the path of the Debian package. */
export function makeDeb(): Promise<string>;
