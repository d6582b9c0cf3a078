/** Helpers for tests of the local backend, with fake and with real engines. */
import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { LocalBackend } from '../../src/backends/local/local-backend.ts';
import type { Store } from '../../src/backends/local/store.ts';
import type { Logger } from '../../src/log/log.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import type { GenerateEvent, GenerateRequest } from '../../src/protocol/generate.ts';
import { given } from '../../src/protocol/given.ts';
import type { Capability, ModelRecord } from '../../src/protocol/records.ts';

export type Kinds = Readonly<Record<string, Capability>>;

export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** A Logger that keeps all lines. The last output of a dying engine is also printed, to explain a failing test. */
export function recorder(lines: LogLine[]): Logger {
  const at = (level: string) => (fields: Record<string, unknown>, message: string) => {
    lines.push({ level, message, fields });
    if (level === 'warn' && message === 'engine output') process.stderr.write(`engine: ${String(fields['line'])}\n`);
  };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') } as unknown as Logger;
}

export interface FixedStoreOptions {
  readonly kinds?: Kinds;
  readonly trained?: Readonly<Record<string, number>>;
  readonly changes?: Readonly<Record<string, Partial<ModelRecord>>>;
}

/**
 * A model store with these paths by name; `byDefault`: default model, if any; `kinds`: capabilities by
 * name, `chat` otherwise; `trained`: context lengths by name; `changes`: fields of records by name, read at each call.
 */
export function fixedStore(
  paths: Readonly<Record<string, string>>,
  byDefault: string | null,
  { kinds = {}, trained = {}, changes = {} }: FixedStoreOptions = {},
): Store {
  const all = Object.entries(paths).map(([id, path]) => ({
    ...modelRecord(id, path, id === byDefault, kinds[id] ?? 'chat'),
    context_length: trained[id] ?? null,
  }));
  const records = (): ModelRecord[] => all.map((record) => ({ ...record, ...changes[record.id] }));
  return {
    list: () => Promise.resolve(records()),
    find: (name) => {
      const found = records().find((record) => (name === undefined ? record.default : record.id === name));
      return found === undefined
        ? Promise.reject(new SvcError('MODEL_NOT_FOUND', `there is no model ${String(name)}`))
        : Promise.resolve(found);
    },
    settingOf: (name, key) => Promise.resolve(`models.${name}.${key}`),
    noteLoad: () => Promise.resolve(),
  };
}

function modelRecord(id: string, path: string, isDefault: boolean, capability: Capability): ModelRecord {
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
    capabilities: [capability],
    capabilities_tried: false,
    license: null,
    state: 'installed',
    default: isDefault,
    builtin: false,
    modified_at: new Date(0).toISOString(),
    loaded: null,
  };
}

export function ask(prompt: string, model?: string): GenerateRequest {
  return {
    messages: [{ role: 'user', content: prompt }],
    sampling: {},
    stop: [],
    ...given({ model }),
  };
}

export function textOf(events: readonly GenerateEvent[]): string {
  return events.map((event) => (event.type === 'text' ? event.text : '')).join('');
}

interface Disposable {
  readonly backend: LocalBackend;
  dispose(): Promise<void>;
}

/** Registers tests that each get their own local backend; checks that no engine is left behind. */
export function testWith<Local extends Disposable>(
  what: string,
  make: () => Local | Promise<Local>,
  body: (local: Local) => Promise<void>,
): void {
  test(what, async () => {
    const local = await make();
    try {
      await body(local);
    } finally {
      const pids = local.backend.pids();
      await local.dispose();
      assert.equal(pids.filter(isAlive), []);
    }
  });
}

/** True if the process exists and is not a zombie. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    if (process.platform !== 'linux') return true;
    const stat = readFileSync(`/proc/${String(pid)}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).charAt(0) !== 'Z';
  } catch {
    return false;
  }
}
