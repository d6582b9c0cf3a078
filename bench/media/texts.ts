/**
 * Compares the texts of our engine about pictures and sounds with those of llama-mtmd-cli, built from the same source
 * and linked to the same libraries. Our kernels sum attention in another order, so an answer may part where the two
 * best tokens are nearly tied: that counts as the same.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { NativeOutput } from '../../src/engine/addon.ts';
import { loadAddon, type LoadedAddon } from '../../src/engine/loader.ts';
import { png, projectorPath, wav } from '../../test/support/media-files.ts';
import { makeInFullPrecision } from '../compare/full-precision.ts';
import { run as runVisibly } from '../compare/llama-server.ts';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const program = join(root, 'build', 'addon', 'bin', 'llama-mtmd-cli');
const run = promisify(execFile);
const TOKENS = 24;
/** In natural logarithms; other kernels move logits by less (native/test/llama/batch_test.cc). */
const NEAR_TIE = 0.1;
const QUESTION = 'What is this?';

const pictures = Array.from({ length: 3 }, (_, kind) =>
  png(100 + 40 * kind, 60 + 90 * kind, (x, y) => [(x * 2 + kind * 70) & 255, (y * 3) & 255, (255 - x * kind) & 255]),
);
const sounds = [200, 440].map((hertz) => wav(20_000, hertz));
const KINDS = [
  { model: 'tiny-llama', projector: 'clip', type: 'image', files: pictures },
  { model: 'tiny-gemma3', projector: 'siglip', type: 'image', files: pictures },
  { model: 'tiny-qwen2vl', projector: 'qwen2-vl', type: 'image', files: pictures },
  { model: 'tiny-llama', projector: 'whisper', type: 'audio', files: sounds },
] as const;

interface Token {
  readonly bytes: Buffer;
  /** Log probability above that of the second-best. */
  readonly lead: number;
}
interface Answer {
  text: string;
  readonly tokens: Token[];
  readonly done: () => void;
}

export interface Texts {
  readonly model: string;
  readonly projector: string;
  readonly prompts: number;
  /** Number of prompts with the same text. */
  readonly equal: number;
  /** Number of those that part where the two best tokens are nearly tied. */
  readonly nearTies: number;
  /** Largest lead of our token over the second-best at such a place, in natural logarithms. */
  readonly largestLead: number;
}

export async function compareTexts(): Promise<Texts[]> {
  const build = join(root, 'build', 'addon');
  await runVisibly('cmake', ['--build', build, '--target', 'llama-mtmd-cli', '--parallel', '2']);
  const { addon, directory } = loadAddon();
  addon.loadBackends(directory);
  const folder = await mkdtemp(join(tmpdir(), 'svc-media-'));
  const all: Texts[] = [];
  try {
    for (const kind of KINDS) all.push(await compare(addon, folder, kind));
  } finally {
    await rm(folder, { recursive: true });
  }
  return all;
}

export const areEqual = ({ prompts, equal, nearTies }: Texts): boolean => equal + nearTies === prompts;

function toToken({ bytes, logprob, top }: NonNullable<NativeOutput['logprobs']>[number]): Token {
  const others = top.filter((each) => each.bytes !== bytes).map((each) => each.logprob);
  return { bytes: Buffer.from(bytes, 'latin1'), lead: logprob - Math.max(...others) };
}

/** Lead of our token over the second-best where the texts part. null: they do not. */
function leadWhereTheyPart({ tokens }: Answer, theirs: Buffer): number | null {
  let rest = theirs;
  for (const { bytes, lead } of tokens) {
    // Theirs is cut where its program ends, and may end within a character.
    const common = Math.min(bytes.length, rest.length);
    if (!bytes.subarray(0, common).equals(rest.subarray(0, common))) return lead;
    rest = rest.subarray(common);
    if (rest.length < 4) return null;
  }
  return null;
}

async function compare(
  addon: LoadedAddon['addon'],
  folder: string,
  { model, projector, type, files }: (typeof KINDS)[number],
): Promise<Texts> {
  const path = await makeInFullPrecision(model, folder);
  const answers = new Map<number, Answer>();
  const engine = await addon.load(
    path,
    { context_length: 4096, threads: 1, projector_path: projectorPath(projector) },
    () => undefined,
    (outputs) => {
      for (const { id, text, logprobs = [], finish } of outputs) {
        const answer = answers.get(id);
        if (answer === undefined) continue;
        answer.text += text;
        answer.tokens.push(...logprobs.map(toToken));
        if (finish !== undefined) answer.done();
      }
    },
  );
  // Each alone, then the first two in one prompt.
  const prompts = [...files.map((file) => [file]), files.slice(0, 2)];
  const leads: (number | null)[] = [];
  for (const [id, prompt] of prompts.entries()) {
    const media = prompt.map((file, part) => ({ type, data: file.toString('base64'), at: 0, part }));
    const finished = new Promise<void>((done) => answers.set(id, { text: '', tokens: [], done }));
    const messages = [{ role: 'user', content: QUESTION, media }];
    await engine.submit({ id, messages, max_tokens: TOKENS, logprobs: 2, sampling: { temperature: 0, seed: 1 } });
    await finished;
    const ours = answers.get(id) as Answer;
    const theirs = await theirAnswer({ folder, model: path, projector, type }, prompt);
    const lead = leadWhereTheyPart(ours, theirs);
    leads.push(lead);
    if (lead !== null && lead >= NEAR_TIE)
      console.error(`${model} with ${projector}:\n  ours:   ${ours.text}\n  theirs: ${theirs.toString()}`);
  }
  await engine.close();
  const ties = leads.filter((lead) => lead !== null).filter((lead) => lead < NEAR_TIE);
  return {
    model,
    projector,
    prompts: prompts.length,
    equal: leads.filter((lead) => lead === null).length,
    nearTies: ties.length,
    largestLead: Math.max(0, ...ties),
  };
}

interface Theirs {
  readonly folder: string;
  /** Path of the file. */
  readonly model: string;
  readonly projector: Parameters<typeof projectorPath>[0];
  readonly type: 'image' | 'audio';
}

async function theirAnswer({ folder, model, projector, type }: Theirs, files: readonly Buffer[]): Promise<Buffer> {
  const paths: string[] = [];
  for (const [index, bytes] of files.entries()) {
    const path = join(folder, `${String(index)}.${type === 'image' ? 'png' : 'wav'}`);
    await writeFile(path, bytes);
    paths.push(`--${type}`, path);
  }
  const settings = ['--jinja', '--temp', '0', '-n', String(TOKENS), '-ngl', '0', '-c', '4096', '-t', '1'];
  // It may end before it has printed anything.
  for (let attempt = 1; attempt <= 5; attempt++) {
    const args = ['-m', model, '--mmproj', projectorPath(projector), ...paths, '-p', QUESTION, ...settings];
    const { stdout } = await run(program, args, { encoding: 'latin1' });
    const answer = stdout.replace(/^\n+|\n+$/g, '');
    if (answer.trim() !== '') return Buffer.from(answer, 'latin1');
  }
  throw new Error('llama-mtmd-cli printed nothing');
}

export function textLines(all: readonly Texts[]): string[] {
  return [
    '### Texts about pictures and sounds, beside llama-mtmd-cli',
    '',
    `Greedy answers of ${String(TOKENS)} tokens, models and projectors with random weights, the models in F32. Near ties: texts that part where the`,
    `two best tokens are less than ${String(NEAR_TIE)} (natural logarithm) apart.`,
    '',
    '| model | projector | prompts | the same text | near ties | others |',
    '|---|---|---|---|---|---|',
    ...all.map(({ model, projector, prompts, equal, nearTies, largestLead }) =>
      [
        `| ${model} | ${projector} | ${String(prompts)} | ${String(equal)}`,
        nearTies === 0 ? '0' : `${String(nearTies)} (${largestLead.toFixed(3)} at most)`,
        `${String(prompts - equal - nearTies)} |`,
      ].join(' | '),
    ),
    '',
  ];
}
