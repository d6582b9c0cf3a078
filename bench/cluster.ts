/**
 * A cluster of six daemons behind one, under load, while one after the other of them is killed, falls
 * silent, becomes slow and drains. Writes docs/cluster.md; ends with 1 when something does not hold.
 *
 *   npm run bench:cluster
 */
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { startFront, startServer, type Daemon } from './cluster/farm.ts';
import { Load, type Outcome } from './cluster/load.ts';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const SERVERS = 6;
const WELL_MS = 10_000;
const ILL_MS = 6_000;
/** Within that, requests that have not begun go elsewhere. */
const SHIFT_MS = 1000;

interface Ill {
  readonly name: string;
  readonly how: string;
  /** Whether it still gets requests: a slow one does, fewer. */
  readonly stays: boolean;
  plant(server: Daemon): Promise<() => Promise<void>>;
}

const signal = (pids: readonly number[], name: NodeJS.Signals): void => {
  for (const pid of pids) {
    try {
      process.kill(pid, name);
    } catch {
      // It has ended.
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
    how: 'SIGSTOP to the daemon and its engine: connections are taken and nothing is said',
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
    how: 'SIGSTOP and SIGCONT to its engine: it runs a tenth of the time',
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
    how: '`POST /control/drain`: answers under way end, new requests get 503',
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
  /** Milliseconds until the last request went there, after the fault. */
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
  const text = report(rows, affinity, all.length);
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

/** How many requests went to the server that most of their conversation went to. */
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
    'Written by `npm run bench:cluster`: six daemons with the built-in model behind one ([routing.md](routing.md)), eight clients that ask all the time in',
    `24 conversations, ${total.toLocaleString('en-US')} requests. One server after the other turns bad and stays so while the next one does. A request is lost when it fails before its`,
    'first word; one that had begun to stream breaks off with its server.',
    '',
    `While all were well, ${percent(affinity)} of the requests went to the server of their conversation (to be reached: 90 %).`,
    '',
    '| a server is | how | requests meanwhile | lost | broke off | last request there after | its share before | after a second |',
    '|---|---|---|---|---|---|---|---|',
    ...rows.map(
      ({ ill, requests, lost, brokeOff, shiftMs, shareBefore, shareAfter }) =>
        `| ${ill.name} | ${ill.how} | ${String(requests)} | ${String(lost)} | ${String(brokeOff)} | ${ill.stays ? 'gets fewer' : `${(shiftMs / 1000).toFixed(2)} s`} | ${percent(shareBefore)} | ${percent(shareAfter)} |`,
    ),
    '',
  ].join('\n');
}
