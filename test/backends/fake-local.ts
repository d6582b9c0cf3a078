/** A LocalBackend with fake engines (fake-engine.ts): real processes, no model. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { LocalBackend, type EngineSettings, type ResidencySettings } from '../../src/backends/local/local-backend.ts';
import type { HostMemory } from '../../src/process/host-memory.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import { given } from '../../src/protocol/given.ts';
import { compiled } from '../support/compiled.ts';
import type { Behaviour } from './fake-engine.ts';
import { fixedStore, recorder, type LogLine } from './local-support.ts';

export interface FakeLocal {
  readonly backend: LocalBackend;
  readonly log: readonly LogLine[];
  /** Changes the behaviour of a model from its next start on. */
  readonly behave: (model: string, behaviour: Behaviour) => Promise<void>;
  /** Gives a model the file of another one, as a pull of a newer version does. */
  readonly replace: (model: string, by: string) => void;
  /** Process ids of all processes started for a model, in order. */
  readonly starts: (model: string) => Promise<number[]>;
  readonly changes: () => number;
  readonly dispose: () => Promise<void>;
}

const ENTRY = compiled(fileURLToPath(new URL('./fake-engine.ts', import.meta.url)));

/** `behaviours`: behaviour by model name. */
export async function makeFakeLocal(
  behaviours: Readonly<Record<string, Behaviour>>,
  settings: Partial<EngineSettings> = {},
  byDefault: string | null = null,
  memory: Partial<ResidencySettings> & { readonly hostMemory?: () => HostMemory } = {},
): Promise<FakeLocal> {
  const directory = await mkdtemp(join(tmpdir(), 'svc-fake-'));
  const file = (model: string): string => join(directory, model);
  const behave = (model: string, behaviour: Behaviour): Promise<void> =>
    writeFile(file(model), JSON.stringify(behaviour));
  for (const [model, behaviour] of Object.entries(behaviours)) await behave(model, behaviour);

  const { hostMemory, ...models } = memory;
  const replaced: Record<string, { path: string }> = {};
  const log: LogLine[] = [];
  let changes = 0;
  const backend = new LocalBackend({
    store: fixedStore(Object.fromEntries(Object.keys(behaviours).map((model) => [model, file(model)])), byDefault, {
      changes: replaced,
      trained: Object.fromEntries(
        Object.entries(behaviours).flatMap(([model, { trained }]) => (trained === undefined ? [] : [[model, trained]])),
      ),
    }),
    engine: { stall_timeout_seconds: 60, queue_limit: 256, ...settings },
    models: { keep_alive_seconds: 300, ...models },
    log: recorder(log),
    onChange: () => {
      changes++;
    },
    entry: ENTRY,
    ...given({ hostMemory }),
  });
  return {
    backend,
    log,
    behave,
    replace: (model, by) => {
      replaced[model] = { path: file(by) };
    },
    starts: async (model) => {
      const lines = await readFile(`${file(model)}.starts`, 'utf8').catch(() => '');
      return lines.split('\n').filter(Boolean).map(Number);
    },
    changes: () => changes,
    dispose: async () => {
      await backend.destroy(new SvcError('CANCELLED', 'the test is over'));
      await rm(directory, { recursive: true, force: true });
    },
  };
}
