/**
 * A real daemon over engines whose timing the test controls, by messages on the IPC channel:
 * `{engine}` sets the engine's status, `{crash}` throws (with that error code, if it is a string) and `{reject}`
 * rejects uncaught, `{hoard}` allocates memory until the process is killed for it, `{finish}` completes every
 * generation normally.
 *
 * A generation yields `max_tokens` ticks, one every 20 ms; the model `deaf` ignores aborts, and `flood` yields
 * 16 KiB at each turn.
 */
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import type { Backend } from '../../src/backends/backend.ts';
import { loadConfig } from '../../src/config/config.ts';
import { resolvePaths } from '../../src/home/paths.ts';
import { Daemon, type DaemonParts } from '../../src/daemon/daemon.ts';
import type { LocalEngines } from '../../src/daemon/models/local-engines.ts';
import { Lifecycle } from '../../src/daemon/lifecycle.ts';
import { CloudProviders } from '../../src/daemon/providers.ts';
import { builtinModelPath } from '../../src/models/store/builtin.ts';
import { ModelStore } from '../../src/models/store/store.ts';
import { LogFile } from '../../src/log/log-file.ts';
import { createLogger, StderrLog, Tee } from '../../src/log/log.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import type { CheckStatus, LoadedModelHealth, ModelRecord } from '../../src/protocol/records.ts';
import { countAnswer } from '../../src/usage/answered.ts';
import { Budgets } from '../../src/usage/budgets.ts';
import { Quotas } from '../../src/usage/quotas.ts';
import { ProviderKeys } from '../../src/providers/provider-keys.ts';
import { Router } from '../../src/routing/router.ts';
import { FINISH, LOCAL, START, TINY, text } from '../http/scripted.ts';

interface Orders {
  readonly engine?: { readonly status: CheckStatus; readonly reason: string };
  readonly crash?: boolean | string;
  readonly reject?: boolean;
  readonly hoard?: boolean;
  readonly finish?: boolean;
}

let engine: { status: CheckStatus; reason: string } = { status: 'ok', reason: 'a token was produced' };
const running = new AbortController();
let isFinishing = false;

const local: LocalEngines = {
  name: 'local',
  slots: 4,
  async *generate(request, { signal }) {
    const end = request.model === 'deaf' ? new AbortController().signal : AbortSignal.any([signal, running.signal]);
    yield START;
    for (let i = 0; i < (request.max_tokens ?? 1); i++) {
      if (request.model === 'flood') {
        await setImmediate();
        end.throwIfAborted();
        yield text('x'.repeat(16 * 1024));
        continue;
      }
      if (isFinishing) break;
      await sleep(20);
      end.throwIfAborted();
      yield text('tick ');
    }
    yield FINISH;
  },
  async *embed() {
    yield START;
    yield FINISH;
  },
  async *rerank() {
    yield START;
    yield FINISH;
  },
  async *tokenize() {
    yield START;
    yield { type: 'tokens', tokens: [1, 2, 3], prompt: 'abc' };
    yield FINISH;
  },
  async *detokenize() {
    yield START;
    yield FINISH;
  },
  modelNames: () => Promise.resolve([TINY.id]),
  models: (): Promise<readonly ModelRecord[]> => Promise.resolve([TINY]),
  record: () => LOCAL,
  async *load(model) {
    if (engine.status === 'fail') throw new SvcError('ENGINE_UNAVAILABLE', engine.reason);
    yield { type: 'loaded', model, pid: process.pid, context_length: 4096 };
  },
  unload: () => Promise.resolve(),
  engineProcesses: () => [],
  loads: () => [],
  loadedModels: (): readonly LoadedModelHealth[] => [],
  devices: () => [],
  engineCounts: () => ({ crashes: 0, restarts: 0 }),
  engineStatus: () => engine,
  close: () => Promise.resolve(),
  destroy: (error) => {
    running.abort(error);
    return Promise.resolve();
  },
};

const NO_WORK: Pick<DaemonParts, 'quantizer' | 'surroundings' | 'pull'> = {
  quantizer: () => {
    throw new SvcError('ENGINE_UNAVAILABLE', 'nothing is quantised here');
  },
  surroundings: { platform: process.platform, home: resolvePaths().dataDir, variable: () => undefined },
  pull: () => {
    throw new SvcError('DOWNLOAD_FAILED', 'nothing is pulled here');
  },
};

async function main(): Promise<number> {
  const paths = resolvePaths();
  const config = loadConfig(paths);
  const destination = new Tee([new LogFile(paths.logFile), new StderrLog()]);
  const log = createLogger({ level: config.log.level, destination });
  const lifecycle = new Lifecycle(log);
  lifecycle.handleProcess('foreground', destination);
  const backends = new Map<string, Backend>([['local', local]]);
  const providers = new CloudProviders({
    keys: new ProviderKeys(paths.credentialsFile),
    backends,
    connect: () => {
      throw new Error('no provider here');
    },
    log,
  });
  const budgets = new Budgets({
    dir: paths.stateDir,
    budgetOf: () => ({ requestsPerDay: null, tokensPerDay: null }),
    onFailure: () => undefined,
  });
  const quotas = new Quotas({ dir: paths.stateDir, trouble: () => budgets.trouble });
  const daemon = new Daemon({
    mode: 'foreground',
    paths,
    config,
    modelsDir: paths.modelsDir,
    log,
    lifecycle,
    store: {
      list: () => Promise.resolve([TINY]),
      find: () => Promise.resolve(TINY),
      setDefault: () => Promise.resolve(),
    },
    installed: new ModelStore({ dir: paths.modelsDir, builtinPath: builtinModelPath() }),
    ...NO_WORK,
    local,
    backends,
    providers,
    router: new Router(backends, {
      admitCaller: (caller) => quotas.admit(caller),
      find: (name = TINY.id) =>
        name === TINY.id
          ? Promise.resolve(TINY)
          : Promise.reject(new SvcError('MODEL_NOT_FOUND', `no model is named '${name}'`)),
    }),
    countAnswer: (outcome) => countAnswer(outcome, budgets, quotas),
    fileTroubles: () => [],
    tidyPrefixes: () => Promise.resolve(),
    onPrefixBytes: () => undefined,
    onModelNames: () => undefined,
  });
  obey(daemon);
  try {
    return (await daemon.run()).code;
  } finally {
    await destination.close();
  }
}

function hoard(): void {
  const kept: string[][] = [];
  for (;;) kept.push(Array.from({ length: 100_000 }, (_, index) => `${String(kept.length)} ${String(index)}`));
}

function obey(daemon: Daemon): void {
  process.on('message', (orders: Orders) => {
    if (orders.engine !== undefined) {
      engine = orders.engine;
      daemon.engineChanged();
    }
    const { crash = false } = orders;
    if (crash !== false) {
      globalThis.setImmediate(() => {
        throw Object.assign(new TypeError('a planted bug'), crash === true ? {} : { code: crash });
      });
    }
    if (orders.finish === true) isFinishing = true;
    if (orders.hoard === true) hoard();
    if (orders.reject === true) void Promise.reject(new RangeError('a planted rejection'));
  });
  process.channel?.unref();
}

try {
  process.exitCode = await main();
} catch (error) {
  process.exitCode = SvcError.from(error).facts.exit;
  process.stderr.write(`svc: ${SvcError.from(error).message}\n`);
}
