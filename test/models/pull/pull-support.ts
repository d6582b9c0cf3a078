/** Suites with a model store, a download folder and a fake hub, and generated models of any size. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, type Test } from 'uvu';
import { builtinModelPath } from '../../../src/models/store/builtin.ts';
import type { DownloadLimits } from '../../../src/models/pull/download.ts';
import type { HubSettings } from '../../../src/protocol/routes.ts';
import { Puller, type Pulled } from '../../../src/models/pull/puller.ts';
import { parseReference, type Reference } from '../../../src/models/pull/reference.ts';
import { ModelStore } from '../../../src/models/store/store.ts';
import { gguf, LLAMA, partEntries, tensor, textEntry, type FileParts } from '../raw-gguf.ts';
import { FakeHub } from './fake-hub.ts';

export const NEVER = new AbortController().signal;
export const KIB = 1024;
export const MIB = 1024 * 1024;

/** Small part sizes, so that a megabyte has many parts, and short timeouts. */
export const SMALL = {
  connections: 3,
  partBytes: 256 * KIB,
  noteBytes: 64 * KIB,
  failures: 5,
  firstPauseMs: 5,
  mostPauseMs: 20,
  stallMs: 400,
} as const satisfies Partial<DownloadLimits>;

export interface PullContext {
  dir: string;
  hub: FakeHub;
  store: ModelStore;
  puller: Puller;
  settings: HubSettings;
  /** Runs a pull to its end and returns its events. */
  pull(name: string, signal?: AbortSignal, onEvent?: (event: Pulled) => void): Promise<Pulled[]>;
}

export function pullSuite(name: string, limits: Partial<DownloadLimits> = SMALL): Test<PullContext> {
  const test = suite<PullContext>(name);
  test.before(async (context) => {
    context.hub = await new FakeHub().start();
  });
  test.after(async ({ hub }) => hub.stop());
  test.before.each(async (context) => {
    context.hub.reset();
    context.hub.repositories.clear();
    context.dir = await mkdtemp(join(tmpdir(), 'svc-pull-'));
    context.store = new ModelStore({ dir: join(context.dir, 'models'), builtinPath: builtinModelPath() });
    context.puller = makePuller(context, limits);
    context.settings = { endpoint: context.hub.endpoint, token: null, is_offline: false };
    context.pull = async (name, signal = NEVER, onEvent = () => undefined) => {
      const events: Pulled[] = [];
      for await (const event of context.puller.pull(full(parseReference(name)), [], context.settings, signal)) {
        onEvent(event);
        events.push(event);
      }
      return events;
    };
  });
  test.after.each(async ({ dir, puller }) => {
    await puller.close();
    await rm(dir, { recursive: true, force: true });
  });
  return test;
}

export function makePuller(
  { dir, store }: Pick<PullContext, 'dir' | 'store'>,
  limits: Partial<DownloadLimits> = SMALL,
): Puller {
  return new Puller({ store, storeDir: join(dir, 'models'), dir: join(dir, 'downloads'), limits });
}

export function full(reference: Reference): Exclude<Reference, { kind: 'short' }> {
  if (reference.kind === 'short') throw new Error('a short name');
  return reference;
}

/** A GGUF of about `bytes` bytes with random data; `part`: one part of it, of which only the first has metadata. */
export function modelOf(bytes: number, seed = 1, part?: { readonly index: number; readonly count: number }): Buffer {
  const { index, count } = part ?? { index: 0, count: 1 };
  const entries = [...(index === 0 ? [LLAMA] : []), ...(part === undefined ? [] : partEntries(index, count, count))];
  return filled({ entries, tensors: [tensor({ name: `a${index}`, shape: [valuesIn(bytes)] })] }, bytes, seed);
}

export function projectorOf(bytes: number, seed = 1): Buffer {
  const entries = [textEntry('general.architecture', 'clip')];
  return filled({ entries, tensors: [tensor({ shape: [valuesIn(bytes)] })] }, bytes, seed);
}

function valuesIn(bytes: number): number {
  return Math.ceil(bytes / 4 / 32) * 32;
}

function filled(parts: FileParts, bytes: number, seed: number): Buffer {
  const dataBytes = valuesIn(bytes) * 4;
  const file = gguf({ ...parts, dataBytes });
  let state = seed;
  for (let at = file.length - dataBytes; at < file.length; at += 4) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    file.writeUInt32LE(state, at);
  }
  return file;
}

export function lastOf(events: readonly Pulled[]): Extract<Pulled, { type: 'pulled' }> {
  const last = events.at(-1);
  if (last?.type !== 'pulled') throw new Error(`it did not end well: ${JSON.stringify(last)}`);
  return last;
}
