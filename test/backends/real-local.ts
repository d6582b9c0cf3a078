/** A LocalBackend with real engines: the addon and the tiny models of test/make-model/make-model.ts. */
import { fileURLToPath } from 'node:url';
import { LocalBackend, type EngineSettings, type ResidencySettings } from '../../src/backends/local/local-backend.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import { given } from '../../src/protocol/given.ts';
import { BUILT_ENGINE } from '../support/built.ts';
import { waitFor } from '../support/wait.ts';
import { fixedStore, recorder, type Kinds, type LogLine } from './local-support.ts';

export interface RealLocal {
  readonly backend: LocalBackend;
  readonly log: readonly LogLine[];
  readonly dispose: () => Promise<void>;
}

const model = (name: string): string => fileURLToPath(new URL(`../../build/models/${name}.gguf`, import.meta.url));

export const TINY = { llama: model('tiny-llama'), gemma: model('tiny-gemma') } as const;

/** Answers of the tiny models never end by themselves; with this context length they outlast every test. */
const CONTEXT_LENGTH = 65_536;

/** `trained`: trained context lengths by name; if given, the engines choose their context by it. */
export function makeRealLocal(
  settings: Partial<EngineSettings> = {},
  models: Readonly<Record<string, string>> = TINY,
  byDefault: string | null = null,
  kinds: Kinds = {},
  memory: Partial<ResidencySettings> = {},
  trained?: Readonly<Record<string, number>>,
): RealLocal {
  const fixed = trained === undefined ? { context_length: CONTEXT_LENGTH } : {};
  const log: LogLine[] = [];
  const backend = new LocalBackend({
    store: fixedStore(models, byDefault, { kinds, ...given({ trained }) }),
    // One thread: on a machine that is busy with other tests, several threads would wait for each other.
    engine: { stall_timeout_seconds: 60, queue_limit: 256, ...fixed, threads: 1, ...settings },
    models: { keep_alive_seconds: 300, ...memory },
    log: recorder(log),
    onChange: () => undefined,
    ...given({ entry: BUILT_ENGINE }),
  });
  return {
    backend,
    log,
    dispose: () => backend.destroy(new SvcError('CANCELLED', 'the test is over')),
  };
}

/** Begins a request while the only engine is stopped, and kills the engine. Resolves with the first event. */
export async function firstAfterKill<Event>(backend: LocalBackend, events: AsyncIterator<Event>): Promise<Event> {
  const [pid] = backend.pids();
  if (pid === undefined) throw new Error('no engine is loaded');
  process.kill(pid, 'SIGSTOP');
  const first = events.next();
  await waitFor('the request to be sent', () => backend.loadedModels().some(({ waiting }) => waiting > 0));
  process.kill(pid, 'SIGKILL');
  return (await first).value as Event;
}
