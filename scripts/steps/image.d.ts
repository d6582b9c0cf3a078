/** Returns the folder of the OCI layout. */
export function makeImage(): Promise<string>;
