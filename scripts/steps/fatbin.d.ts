/** As fatbin.js. */
export function codeIn(library: Buffer): {
  machine: number[];
  ptx: { version: string; capabilities: number[] };
};
