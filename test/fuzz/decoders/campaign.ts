/**
 * Targets `pictures` and `sounds`: the engine's decoders, built with AddressSanitizer and UndefinedBehaviorSanitizer,
 * read small valid files with random damage (native/test/llama/media/decoders_fuzz_test.cc). A report of a sanitizer, a
 * crash, a broken limit, or two minutes of silence is a finding.
 */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { buildNativeTest } from '../../../scripts/steps/native-tests.js';

export interface Decoder {
  readonly name: string;
  /** Name of its test. */
  readonly test: string;
}

export const DECODERS: readonly Decoder[] = [
  { name: 'pictures', test: 'DamagedPictures' },
  { name: 'sounds', test: 'DamagedSounds' },
];
export const DECODER_CASES = 1_000_000;

const BLOCK = 1000;
const SILENCE_MS = 120_000;
const TOLD_EVERY_MS = 30_000;

interface Ended {
  /** Number of the case after the last one that was reported as done. */
  readonly done: number;
  /** How the process failed, with what it wrote; null if it completed its cases. */
  readonly how: string | null;
}

/** Cases of a seed, and the number of cases between two reports. */
interface Cases {
  readonly seed: number;
  readonly from: number;
  readonly count: number;
  readonly block: number;
  /** File for the bytes of the last case. */
  readonly out?: string | undefined;
}

/** Runs cases `from` to `to` - 1. Returns false if there was a finding. */
export async function fuzzDecoder(
  decoder: Decoder,
  seed: number,
  from: number,
  to: number,
  out?: string,
): Promise<boolean> {
  const program = await buildNativeTest('address', 'decoders_fuzz_test');
  console.log(`${decoder.name}: seed ${String(seed)}, cases ${String(from)} to ${String(to - 1)}`);
  const { done, how } = await play(program, decoder, { seed, from, count: to - from, block: BLOCK, out });
  if (how === null) return true;
  // Once more, with a line for each case: the last one is the case before the finding.
  const count = Math.min(BLOCK, to - done);
  const again = how.includes('\ncase ') ? null : await play(program, decoder, { seed, from: done, count, block: 1 });
  const isAgain = typeof again?.how === 'string';
  const index = isAgain ? String(again.done) : `at or after ${String(done)}`;
  console.log(`${decoder.name}: seed ${String(seed)}, case ${index}: ${isAgain ? again.how : how}`);
  return false;
}

async function play(program: string, { name, test }: Decoder, cases: Cases): Promise<Ended> {
  const { seed, from, count, block, out } = cases;
  const child = spawn(program, [test], {
    env: {
      SVC_FUZZ_SEED: String(seed),
      SVC_FUZZ_FROM: String(from),
      SVC_FUZZ_CASES: String(count),
      SVC_FUZZ_BLOCK: String(block),
      ...(out === undefined ? {} : { SVC_FUZZ_OUT: out }),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = new Promise<string>((resolve) => {
    child.once('close', (code, signal) => resolve(signal ?? `exit ${String(code)}`));
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
  const watch = setTimeout(() => child.kill('SIGABRT'), SILENCE_MS);
  let done = from;
  const startedAt = performance.now();
  let toldAt = startedAt;
  for await (const line of createInterface(child.stdout)) {
    watch.refresh();
    const [, number = '', facts = ''] = /^done (\d+) (.*)/.exec(line) ?? [];
    if (number === '') continue;
    done = Number(number);
    if (done < from + count && performance.now() - toldAt < TOLD_EVERY_MS) continue;
    toldAt = performance.now();
    console.log(`${name}: ${String(done - from)} cases in ${((toldAt - startedAt) / 1000).toFixed(0)} s, ${facts}`);
  }
  const how = await ended;
  clearTimeout(watch);
  return { done, how: how === 'exit 0' ? null : `${how}\n${said}` };
}
