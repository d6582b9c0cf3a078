/**
 * Fuzzes everything that reads untrusted bytes: the GGUF reader, the decoders of pictures and sounds, and each listener
 * of the daemon.
 *
 *   npm run fuzz                                              all targets, in full
 *   npm run fuzz -- --target http2 [--cases 200000] [--seed 1]
 *   npm run fuzz -- --target http2 --seed 1 --only 4711       one case only
 *   npm run fuzz -- --target gguf --only 4711 --out FILE      also write the file that it reads; pictures and sounds, too
 *
 * Case N of a seed is the same on every machine.
 */
import { parseArgs } from 'node:util';
import { DECODER_CASES, DECODERS, fuzzDecoder } from './decoders/campaign.ts';
import { fuzzDoor } from './doors/campaign.ts';
import { DOORS } from './doors/doors.ts';
import { again, fuzzGguf } from './gguf/campaign.ts';

const GGUF_CASES = 10_000_000;

const { values } = parseArgs({
  options: {
    target: { type: 'string' },
    cases: { type: 'string' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string' },
    out: { type: 'string' },
  },
});
const seed = Number(values.seed);
const only = values.only === undefined ? null : Number(values.only);
const names = ['gguf', ...[...DECODERS, ...DOORS].map(({ name }) => name)];
if (values.target !== undefined && !names.includes(values.target)) {
  throw new Error(`there is no target ${values.target}; there are ${names.join(', ')}`);
}

let isClean = true;
if (values.target === undefined || values.target === 'gguf') {
  if (only === null) isClean = await fuzzGguf(seed, Number(values.cases ?? GGUF_CASES));
  else await again(seed, only, values.out);
}
const from = only ?? 0;
const to = (cases: number): number => (only === null ? Number(values.cases ?? cases) : only + 1);
for (const decoder of DECODERS) {
  if (values.target !== undefined && values.target !== decoder.name) continue;
  isClean = (await fuzzDecoder(decoder, seed, from, to(DECODER_CASES), values.out)) && isClean;
}
for (const door of DOORS) {
  if (values.target !== undefined && values.target !== door.name) continue;
  const findings = await fuzzDoor(door, seed, from, to(door.cases));
  isClean = findings.length === 0 && isClean;
}
process.exitCode = isClean ? 0 : 1;
