/** Which GPUs a CUDA library has code for, read from made fat binaries. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { codeIn } from '../../scripts/steps/fatbin.js';

const [PTX, MACHINE_CODE] = [1, 2];

/** One fat binary with an entry for each kind, version and capability. */
function fatBinary(...entries: readonly (readonly [kind: number, version: string, capability: number])[]): Buffer {
  const body = entries.map(([kind, version, capability], index) => {
    const [major, minor] = version.split('.').map(Number) as [number, number];
    const header = Buffer.alloc(64 + 8 * index);
    header.writeUInt16LE(kind, 0);
    header.writeUInt32LE(header.length, 4);
    header.writeBigUInt64LE(40n, 8);
    header.writeUInt16LE(minor, 24);
    header.writeUInt16LE(major, 26);
    header.writeUInt32LE(capability, 28);
    return Buffer.concat([header, Buffer.alloc(40, 0xba)]);
  });
  const start = Buffer.alloc(16);
  start.writeUInt32LE(0xba55_ed50, 0);
  start.writeUInt16LE(16, 6);
  start.writeBigUInt64LE(BigInt(Buffer.concat(body).length), 8);
  return Buffer.concat([start, ...body]);
}

test('machine code and PTX are listed by capability, with the newest version of PTX', () => {
  const library = Buffer.concat([
    Buffer.from('\x7fELF'),
    fatBinary([PTX, '8.4', 80], [MACHINE_CODE, '1.8', 120], [PTX, '9.1', 75]),
    Buffer.alloc(100),
    fatBinary([MACHINE_CODE, '1.8', 86], [PTX, '8.10', 80]),
  ]);
  assert.equal(codeIn(library), { machine: [86, 120], ptx: { version: '9.1', capabilities: [75, 80] } });
});

test('a library without fat binaries has none; a cut one ends', () => {
  assert.equal(codeIn(Buffer.from('\x7fELF')), { machine: [], ptx: { version: '0.0', capabilities: [] } });
  const whole = fatBinary([MACHINE_CODE, '1.8', 86], [MACHINE_CODE, '1.8', 89]);
  assert.equal(codeIn(whole.subarray(0, 130)).machine, [86]);
});

test.run();
