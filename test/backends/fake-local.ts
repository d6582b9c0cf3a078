/** A LocalBackend over fake engines (fake-engine.ts): real processes, no model. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { LocalBackend, type EngineSettings } from '../../src/backends/local/local-backend.ts';
import type { Logger } from '../../src/log/log.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import type { GenerateRequest } from '../../src/protocol/generate.ts';
import type { ModelRecord } from '../../src/protocol/records.ts';
import type { Behaviour } from './fake-engine.ts';

export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

export interface FakeLocal {
  readonly backend: LocalBackend;
  readonly log: LogLine[];
  /** Changes what the model does from its next start on. */
  readonly behave: (model: string, behaviour: Behaviour) => Promise<void>;
  /** The pids of all processes that were started for a model, in order. */
  readonly starts: (model: string) => Promise<number[]>;
  readonly changes: () => number;
  readonly dispose: () => Promise<void>;
}

const ENTRY = fileURLToPath(new URL('./fake-engine.ts', import.meta.url));

/** `models`: names and what they do; the first is the default unless `defaultModel` is null. */
export async function makeFakeLocal(
  models: Readonly<Record<string, Behaviour>>,
  settings: Partial<EngineSettings> = {},
  options: { readonly defaultModel?: string | null; readonly entry?: string } = {},
): Promise<FakeLocal> {
  const directory = await mkdtemp(join(tmpdir(), 'svc-fake-'));
  const file = (model: string): string => join(directory, model);
  const behave = (model: string, behaviour: Behaviour): Promise<void> =>
    writeFile(file(model), JSON.stringify(behaviour));
  for (const [model, behaviour] of Object.entries(models)) await behave(model, behaviour);

  const { defaultModel = Object.keys(models)[0] } = options;
  const records = Object.keys(models).map((id) => modelRecord(id, file(id), id === defaultModel));
  const log: LogLine[] = [];
  let changes = 0;
  const backend = new LocalBackend({
    store: {
      list: () => Promise.resolve(records),
      find: (name) => {
        const found = records.find((record) => (name === undefined ? record.default : record.id === name));
        return found === undefined
          ? Promise.reject(new SvcError('MODEL_NOT_FOUND', `there is no model ${String(name)}`))
          : Promise.resolve(found);
      },
    },
    engine: { stall_timeout_seconds: 60, queue_limit: 256, ...settings },
    log: recorder(log),
    onChange: () => {
      changes++;
    },
    entry: options.entry ?? ENTRY,
  });
  return {
    backend,
    log,
    behave,
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

export function ask(prompt: string, model?: string): GenerateRequest {
  return {
    messages: [{ role: 'user', content: prompt }],
    sampling: {},
    stop: [],
    ...(model === undefined ? {} : { model }),
  };
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

export function modelRecord(id: string, path: string, isDefault: boolean): ModelRecord {
  return {
    id,
    aliases: [],
    source: 'file',
    path,
    digest: null,
    size_bytes: 1,
    format: 'gguf',
    architecture: null,
    parameters: null,
    quantization: null,
    context_length: null,
    capabilities: ['chat'],
    license: null,
    state: 'installed',
    default: isDefault,
    builtin: false,
    modified_at: new Date(0).toISOString(),
    loaded: null,
  };
}

export function recorder(lines: LogLine[]): Logger {
  const at = (level: string) => (fields: Record<string, unknown>, message: string) => {
    lines.push({ level, message, fields });
  };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') } as unknown as Logger;
}
