/** Reads which GPUs a CUDA library has code for, from the headers of its fat binaries. NVIDIA does not document them. */

const MAGIC = Buffer.from([0x50, 0xed, 0x55, 0xba]);
const PTX = 1;
const MACHINE_CODE = 2;
/** Headers of entries are 64 bytes, and longer for compressed ones. */
const LONGEST_HEADER = 512;

/**
 * Capabilities are ten times the compute capability.
 * @param {Buffer} library
 * @returns {{ machine: number[], ptx: { version: string, capabilities: number[] } }}
 *   `ptx` is an intermediate code that drivers compile; `version` is the newest of its language
 */
export function codeIn(library) {
  const machine = new Set();
  const ptx = new Set();
  let version = [0, 0];
  for (let at = library.indexOf(MAGIC); at !== -1; at = library.indexOf(MAGIC, at + MAGIC.length)) {
    const start = at + library.readUInt16LE(at + 6);
    const end = start + Number(library.readBigUInt64LE(at + 8));
    for (let entry = start; entry + 32 <= Math.min(end, library.length);) {
      const kind = library.readUInt16LE(entry);
      const header = library.readUInt32LE(entry + 4);
      if ((kind !== PTX && kind !== MACHINE_CODE) || header > LONGEST_HEADER) break;
      const [minor, major] = [library.readUInt16LE(entry + 24), library.readUInt16LE(entry + 26)];
      (kind === PTX ? ptx : machine).add(library.readUInt32LE(entry + 28));
      if (kind === PTX && (major - version[0] || minor - version[1]) > 0) version = [major, minor];
      entry += header + Number(library.readBigUInt64LE(entry + 8));
    }
  }
  const sorted = (set) => [...set].sort((a, b) => a - b);
  return { machine: sorted(machine), ptx: { version: version.join('.'), capabilities: sorted(ptx) } };
}
