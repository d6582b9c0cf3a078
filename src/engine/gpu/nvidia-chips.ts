/** Compute capability of NVIDIA's cards, which says which machine code they run. */

/** PCI device ids, first and last, and ten times the compute capability. NVIDIA gives each chip a range of ids. */
const CHIPS: readonly (readonly [number, number, number])[] = [
  [0x1340, 0x13bf, 50], // Maxwell: GM107, GM108
  [0x13c0, 0x143f, 52], // GM204, GM206
  [0x15f0, 0x15ff, 60], // Pascal: GP100
  [0x1600, 0x167f, 52], // GM204 in laptops
  [0x1740, 0x17bf, 50], // GM107, GM108
  [0x17c0, 0x17ff, 52], // GM200
  [0x1b00, 0x1d7f, 61], // GP102 to GP108
  [0x1d80, 0x1dff, 70], // Volta: GV100
  [0x1e00, 0x1fff, 75], // Turing: TU102 to TU106, TU117
  [0x2080, 0x20ff, 80], // Ampere: GA100
  [0x2180, 0x21ff, 75], // TU116
  [0x2200, 0x22ff, 86], // GA102
  [0x2300, 0x23ff, 90], // Hopper: GH100
  [0x2400, 0x25ff, 86], // GA103 to GA107
  [0x2600, 0x28ff, 89], // Ada: AD102 to AD107
  [0x2900, 0x297f, 100], // Blackwell: GB100
  [0x2b80, 0x2dff, 120], // GB202, GB203, GB206, GB207
  [0x2e00, 0x2eff, 121], // GB10
  [0x2f00, 0x2fff, 120], // GB205
  [0x3180, 0x31ff, 103], // GB110
];

/** Ten times the compute capability: 90 for an H100. @param device as in sysfs, `0x2330` @returns null if unknown */
export function computeCapability(device: string): number | null {
  const id = Number.parseInt(device, 16);
  return CHIPS.find(([first, last]) => id >= first && id <= last)?.[2] ?? null;
}
