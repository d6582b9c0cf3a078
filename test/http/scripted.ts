/** A listener with the real router and a backend scripted by the test, on a free port or a socket. */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import type { Server } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createListener, type ListenerLimits } from '../../src/daemon/http/server.ts';
import { Console } from '../../src/daemon/console/console.ts';
import { HealthFeed } from '../../src/daemon/health-feed.ts';
import { FailureLog } from '../../src/daemon/request-log.ts';
import type { Services } from '../../src/daemon/services.ts';
import { createLogger, type Logger } from '../../src/log/log.ts';
import { given } from '../../src/protocol/given.ts';
import type { KeyScope } from '../../src/protocol/keys.ts';
import { NO_FACTS } from '../../src/protocol/ollama/show.ts';
import type { OriginEntry } from '../../src/protocol/origins.ts';
import type { Condition, HealthRecord, StatusRecord } from '../../src/protocol/records.ts';
import type { LoadEvent } from '../../src/protocol/routes.ts';
import { NO_TRACES, type Tracer } from '../../src/protocol/traces/span.ts';
import { BackgroundResponses } from '../../src/responses/background/background.ts';
import { ResponseStore } from '../../src/responses/response-store.ts';
import { listModels } from '../../src/routing/listed.ts';
import type { Policies } from '../../src/routing/policy.ts';
import { Router } from '../../src/routing/router.ts';
import { hello, LOCAL, ScriptedBackend, TINY, type Script } from './scripted-backend.ts';

export * from './scripted-backend.ts';

export interface ScriptedListener {
  readonly port: number;
  /** `''` on TCP. */
  readonly socketPath: string;
  readonly url: string;
  readonly server: Server;
  readonly services: Services;
  readonly router: Router;
  readonly backend: ScriptedBackend;
  /** State of the fake daemon services, which tests may change. */
  readonly world: World;
  /** All logged lines. */
  readonly logged: Record<string, unknown>[];
  readonly responsesDir: string;
  stop(): Promise<void>;
}

export interface World {
  conditions: Condition[];
  stopped: number[];
  unloaded: string[];
  /** Entries `PROVIDER KEY`. */
  lent: string[];
  /** Scope of every caller over TCP; null refuses it. */
  admits: KeyScope | null;
  /** Name of the caller's API key; null if none was needed. */
  key: string | null;
  /** Route (or gRPC method) and status of each ended request. */
  ended: string[];
  load: (model: string, signal: AbortSignal) => AsyncIterable<LoadEvent>;
  pull: Services['pull'];
  shelf: Services['shelf'];
  policies: Policies;
}

export interface ScriptedOptions {
  readonly script?: Script;
  readonly limits?: Partial<ListenerLimits>;
  readonly control?: boolean;
  readonly allowedHosts?: readonly string[];
  readonly origins?: readonly OriginEntry[];
  readonly host?: string;
  /** False: responses are not stored. */
  readonly storesResponses?: boolean;
  /** Absent: no traces. */
  readonly tracer?: Tracer;
  /** Clock of the console's sessions. */
  readonly now?: () => number;
  /** Folder of the console's page. */
  readonly page?: string;
}

export interface ScriptedServices {
  readonly services: Services;
  readonly router: Router;
  readonly backend: ScriptedBackend;
  readonly world: World;
  readonly logged: Record<string, unknown>[];
  /** Folder of the stored responses; there is none before the first. */
  readonly responsesDir: string;
}

function ordinaryWorld(): World {
  return {
    conditions: [{ name: 'engine', status: 'ok', reason: 'a token was produced', since: '2026-11-01T00:00:00Z' }],
    stopped: [],
    unloaded: [],
    lent: [],
    admits: 'admin',
    key: null,
    ended: [],
    load: async function* () {
      yield { type: 'loaded', model: 'tiny', pid: 1, context_length: 4096 };
    },
    pull: async function* () {
      yield { type: 'pulled', model: TINY, fetched_bytes: 0 };
    },
    shelf: {
      defaultsOf: () => Promise.resolve({ chat_template: '{{ messages }}', sampling: { top_k: 20 } }),
      describe: ({ id }) => Promise.resolve({ ...NO_FACTS, modelfile: `FROM ${id}` }),
      copy: () => Promise.resolve(),
      remove: () => Promise.resolve(),
      create: () => Promise.resolve([]),
      setDefault: () => Promise.resolve(),
      catalogue: () => Promise.resolve([]),
    },
    policies: {},
  };
}

const FACTS: Pick<Services, 'models' | 'providers' | 'slots' | 'work'> = {
  models: () => Promise.resolve([TINY]),
  providers: () => [LOCAL],
  slots: 4,
  work: {
    quantize: async function* () {
      yield { type: 'quantized', model: TINY };
    },
    verify: async function* () {
      yield { type: 'finished', verified: 1, damaged: [], leftovers: null };
    },
    import: async function* () {
      yield { type: 'finished', dry_run: true, folders: [], models: [], refused: [] };
    },
  },
};

function loggerInto(logged: Record<string, unknown>[]): Logger {
  return createLogger({
    level: 'debug',
    destination: {
      write: (line) => void logged.push(JSON.parse(line) as Record<string, unknown>),
      flushSync: () => undefined,
      close: () => Promise.resolve(),
    },
  });
}

function scriptedResponses(dir: string, enabled: boolean, router: Router): Pick<Services, 'responses' | 'background'> {
  const onFailure = (error: unknown): void => {
    throw error;
  };
  const responses = new ResponseStore({ dir, enabled, keepMs: 86_400_000, mostBytes: 100_000_000, onFailure });
  return {
    responses,
    background: new BackgroundResponses({
      store: responses,
      route: router.route.bind(router),
      tracer: NO_TRACES,
      onFailure,
    }),
  };
}

function readinessOf(world: World, exclude?: ReadonlySet<string>): ReturnType<Services['ready']> {
  const conditions = world.conditions.filter(({ name }) => exclude?.has(name) !== true);
  const failed = conditions.some(({ status }) => status === 'fail');
  return { status: failed ? 'not_ready' : 'ready', state: failed ? 'DEGRADED' : 'READY', conditions };
}

async function listedIn(services: Services, { policies }: World, scope: KeyScope): ReturnType<Services['listed']> {
  return listModels({
    models: await services.models(),
    providers: services.providers(),
    policies,
    defaults: {},
    scope,
  });
}

function scriptedConsole(log: Logger, dir: string, router: Router, { now, page }: ScriptedOptions): Console {
  return new Console({
    paths: { stateDir: dir, logFile: join(dir, 'daemon.log'), keyFile: join(dir, 'keys.json') },
    log,
    router,
    loaded: () => [],
    ending: new AbortController().signal,
    http: () => '127.0.0.1:7117',
    doctor: () => Promise.resolve({ ok: true, checks: [], advice: { first: null, only_builtin: false, models: [] } }),
    ...given({ now, page }),
  });
}

export function scriptedServices(options: ScriptedOptions = {}): ScriptedServices {
  const backend = new ScriptedBackend(options.script ?? hello);
  const router = new Router(new Map([[backend.name, backend]]));
  const logged: Record<string, unknown>[] = [];
  const world = ordinaryWorld();
  const log = loggerInto(logged);
  const responsesDir = join(tmpdir(), `svc-responses-${randomUUID()}`);
  const console = scriptedConsole(log, responsesDir, router, options);
  const services: Services = {
    console,
    tracer: options.tracer ?? NO_TRACES,
    log,
    ...scriptedResponses(responsesDir, options.storesResponses ?? true, router),
    failures: new FailureLog(log),
    router,
    allowedHosts: options.allowedHosts ?? [],
    origins: options.origins ?? [],
    healthFeed: new HealthFeed(),
    access: { admit: () => Promise.resolve(world.admits && { scope: world.admits, key: world.key }) },
    metrics: {
      requestEnded: (route, status) => void world.ended.push(`${route ?? 'none'} ${String(status)}`),
      callEnded: (method, code) => void world.ended.push(`${method} ${code}`),
      page: () => Promise.resolve({ contentType: 'text/plain', text: 'svc_ready 1\n' }),
    },
    ready: (exclude) => readinessOf(world, exclude),
    health: () => {
      const failed = world.conditions.some(({ status }) => status === 'fail');
      const { conditions } = world;
      const status = failed ? 'not_ready' : 'ready';
      return { status, reason: null, conditions, models: [], providers: [] } as unknown as HealthRecord;
    },
    status: () => ({ state: 'READY' }) as unknown as StatusRecord,
    ...FACTS,
    listed: (scope) => listedIn(services, world, scope),
    get shelf() {
      return world.shelf;
    },
    cloud: {
      models: () => Promise.resolve(['small']),
      test: async function* () {
        yield { step: 'key', status: 'ok', endpoint: null, detail: 'none needed', latency_ms: null, code: null };
      },
      lend: (provider, key) => void world.lent.push(`${provider} ${key}`),
    },
    load: (model, signal) => world.load(model, signal),
    pull: (request, signal, dialect) => world.pull(request, signal, dialect),
    unload: (model) => {
      world.unloaded.push(model);
      return Promise.resolve();
    },
    reload: () => ({ applied: [], restart_needed: [] }),
    drain: (on) => {
      if (on) router.drain();
      else router.resume();
      return { draining: on, active: router.active, waiting: router.waiting };
    },
    stop: (drainTimeoutMs) => void world.stopped.push(drainTimeoutMs),
  };
  return { services, router, backend, world, logged, responsesDir };
}

export async function startScripted(options: ScriptedOptions = {}): Promise<ScriptedListener> {
  const { services, router, backend, world, logged, responsesDir } = scriptedServices(options);
  const control = options.control ?? false;
  const server = createListener({ services, control, ...given({ limits: options.limits }) });
  const dir = control ? await mkdtemp(join(tmpdir(), 'svc-http-')) : '';
  const socketPath = control ? join(dir, 'svc.sock') : '';
  if (control) server.listen(socketPath);
  else server.listen(0, options.host ?? '127.0.0.1');
  await once(server, 'listening');
  const port = control ? 0 : (server.address() as AddressInfo).port;
  return {
    port,
    socketPath,
    url: `http://127.0.0.1:${String(port)}`,
    server,
    services,
    router,
    backend,
    world,
    logged,
    responsesDir,
    stop: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
      await services.background.close();
      await rm(responsesDir, { recursive: true, force: true });
      if (control) await rm(dir, { recursive: true, force: true });
    },
  };
}
