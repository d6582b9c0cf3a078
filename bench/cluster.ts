/**
 * Six daemons behind a front daemon, under load, while one of them is killed, another stops responding, a third becomes
 * slow and a fourth drains. Writes docs/cluster.md; exits with 1 if a target is missed.
 *
 *   npm run bench:cluster
 */
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { startFront, startServer, type Daemon } from './cluster/farm.ts';
import { Load, type Outcome } from './cluster/load.ts';
import { wrapped } from './page.ts';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const SERVERS = 6;
const WELL_MS = 10_000;
const ILL_MS = 6_000;
/** After this time, new requests must go to other servers. */
const SHIFT_MS = 1000;

interface Ill {
  readonly name: string;
  readonly how: string;
  /** True if the server still gets (fewer) requests. */
  readonly stays: boolean;
  plant(server: Daemon): Promise<() => Promise<void>>;
}

const signal = (pids: readonly number[], name: NodeJS.Signals): void => {
  for (const pid of pids) {
    try {
      process.kill(pid, name);
    } catch {
      // The process has exited.
    }
  }
};

const ILLS: readonly Ill[] = [
  {
    name: 'killed',
    how: 'SIGKILL to the daemon and its engine',
    stays: false,
    plant: async (server) => {
      signal(await server.pids(), 'SIGKILL');
      return () => Promise.resolve();
    },
  },
  {
    name: 'silent',
    how: 'SIGSTOP to the daemon and its engine: connections are accepted but never answered',
    stays: false,
    plant: async (server) => {
      const pids = await server.pids();
      signal(pids, 'SIGSTOP');
      return () => {
        signal(pids, 'SIGCONT');
        return Promise.resolve();
      };
    },
  },
  {
    name: 'slow',
    how: 'SIGSTOP and SIGCONT to its engine, which runs a tenth of the time',
    stays: true,
    plant: async (server) => {
      const [, engine = 0] = await server.pids();
      let isStopped = false;
      let turn = 0;
      const timer = setInterval(() => {
        const shouldStop = (turn += 1) % 10 !== 0;
        if (shouldStop !== isStopped) signal([engine], shouldStop ? 'SIGSTOP' : 'SIGCONT');
        isStopped = shouldStop;
      }, 30);
      return () => {
        clearInterval(timer);
        signal([engine], 'SIGCONT');
        return Promise.resolve();
      };
    },
  },
  {
    name: 'draining',
    how: '`POST /control/drain`: running answers finish, new requests get 503',
    stays: false,
    plant: async (server) => {
      await server.control('/control/drain', { drain: true });
      return () => Promise.resolve();
    },
  },
];

interface Row {
  readonly ill: Ill;
  readonly requests: number;
  readonly lost: number;
  readonly brokeOff: number;
  /** Milliseconds from the fault to the last request that the server answered. */
  readonly shiftMs: number;
  readonly shareBefore: number;
  readonly shareAfter: number;
}

const servers = await Promise.all(Array.from({ length: SERVERS }, (_, index) => startServer(index + 1)));
const cleanups: (() => Promise<void>)[] = [];
let front: Daemon | null = null;
try {
  front = await startFront(servers);
  const load = new Load(front.url);
  await sleep(WELL_MS);
  const well = [...load.outcomes];
  const rows: Row[] = [];
  for (const [index, ill] of ILLS.entries()) {
    const server = servers[index] as Daemon;
    const seen = load.outcomes.length;
    const at = performance.now();
    cleanups.push(await ill.plant(server));
    await sleep(ILL_MS);
    rows.push(judge(ill, server, at, well, load.outcomes.slice(seen)));
  }
  const all = await load.stop();
  const affinity = affinityOf(well);
  const text = wrapped(report(rows, affinity, all.length));
  await writeFile(join(root, 'docs', 'cluster.md'), text);
  console.log(text);
  const holds = affinity >= 0.9 && rows.every((row) => row.lost === 0 && (row.ill.stays || row.shiftMs <= SHIFT_MS));
  if (!holds) process.exitCode = 1;
} finally {
  for (const cleanup of cleanups) await cleanup();
  await front?.stop();
  await Promise.all(servers.map((server) => server.stop()));
}

function judge(ill: Ill, server: Daemon, at: number, well: readonly Outcome[], outcomes: readonly Outcome[]): Row {
  const answered = outcomes.filter((outcome) => outcome.server === server.name && outcome.from > at);
  const late = outcomes.filter(({ from }) => from > at + SHIFT_MS);
  return {
    ill,
    requests: outcomes.length,
    lost: outcomes.filter(({ wasLost }) => wasLost).length,
    brokeOff: outcomes.filter(({ error, wasLost }) => error !== null && !wasLost).length,
    shiftMs: Math.max(0, ...answered.map(({ from }) => from - at)),
    shareBefore: share(well, server),
    shareAfter: share(late, server),
  };
}

function share(outcomes: readonly Outcome[], server: Daemon): number {
  return outcomes.filter((outcome) => outcome.server === server.name).length / Math.max(1, outcomes.length);
}

/** Fraction of requests that went to the server that most requests of their conversation went to. */
function affinityOf(outcomes: readonly Outcome[]): number {
  const conversations = new Map<number, Map<string | null, number>>();
  for (const { conversation, server } of outcomes) {
    const counts = conversations.get(conversation) ?? new Map<string | null, number>();
    counts.set(server, (counts.get(server) ?? 0) + 1);
    conversations.set(conversation, counts);
  }
  const most = Array.from(conversations.values(), (counts) => Math.max(...counts.values()));
  return most.reduce((sum, count) => sum + count, 0) / Math.max(1, outcomes.length);
}

function report(rows: readonly Row[], affinity: number, total: number): string {
  const percent = (value: number): string => `${(value * 100).toFixed(0)} %`;
  return [
    '# A cluster under load',
    '',
    'Written by `npm run bench:cluster`: six daemons with the built-in model behind a front daemon ([routing.md](routing.md)). Eight clients send',
    `${total.toLocaleString('en-US')} requests in 24 conversations, without pause. One server after the other gets a fault and keeps it. A request is lost if it fails before the first`,
    'piece of its answer; a stream that has begun breaks off if its server fails.',
    '',
    `Without faults, ${percent(affinity)} of the requests went to the server of their conversation (target: 90 %).`,
    '',
    '| fault | how | requests during it | lost | broken off | last request answered after | share before | share after 1 s |',
    '|---|---|---|---|---|---|---|---|',
    ...rows.map(
      ({ ill, requests, lost, brokeOff, shiftMs, shareBefore, shareAfter }) =>
        `| ${ill.name} | ${ill.how} | ${String(requests)} | ${String(lost)} | ${String(brokeOff)} | ${ill.stays ? 'gets fewer' : `${(shiftMs / 1000).toFixed(2)} s`} | ${percent(shareBefore)} | ${percent(shareAfter)} |`,
    ),
    '',
  ].join('\n');
}
