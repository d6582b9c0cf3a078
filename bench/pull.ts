/**
 * Speed and peak memory of `svc model pull` for a file of 1 GiB, compared with curl from the same server:
 *
 *   node --import tsx bench/pull.ts [MEBIBYTES] [RUNS]
 *
 * Runs once with a server on the same cores at full speed, and once with all connections together limited to 1 Gbit/s.
 * The file is a GGUF with pseudo-random weights. curl only writes the file, so there is also a row for curl followed by
 * sha256sum; a pull also checks the SHA-256, syncs the file and registers the model. The commands take turns, and each
 * deletes its file: memory that the system has just freed is faster.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { FakeHub } from '../test/models/pull/fake-hub.ts';
import { MIB, modelOf } from '../test/models/pull/pull-support.ts';
import { machine } from './page.ts';
import { median } from './peers/scenario.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const [mebibytes = 1024, runs = 5] = process.argv.slice(2).map(Number);

interface Run {
  readonly seconds: number;
  readonly mostRssBytes: number;
}

/** Runs a command. Peak memory is polled, because /proc/PID disappears when the process ends. */
async function timed(command: readonly string[], env: Record<string, string>): Promise<Run> {
  const [program = '', ...args] = command;
  const startedAt = performance.now();
  const child = spawn(program, args, { cwd: ROOT, env: { ...process.env, ...env }, stdio: 'ignore' });
  let mostRssBytes = 0;
  const timer = setInterval(() => {
    readFile(`/proc/${String(child.pid)}/status`, 'utf8').then(
      (status) => (mostRssBytes = Math.max(mostRssBytes, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) * 1024)),
      () => undefined,
    );
  }, 20);
  const [code] = (await once(child, 'exit')) as [number | null];
  clearInterval(timer);
  if (code !== 0) throw new Error(`${command.join(' ')} exited with ${String(code)}`);
  return { seconds: (performance.now() - startedAt) / 1000, mostRssBytes };
}

const REPOSITORY = 'acme/m';
const FILE = 'm-Q4_0.gguf';
const CHECKED = 'curl --silent --output "$1" "$2" && sha256sum "$1"';
const COMMANDS: Readonly<Record<string, (file: string, url: string) => readonly string[]>> = {
  curl: (file, url) => ['curl', '--silent', '--output', file, url],
  'svc model pull': () => [process.execPath, 'bin/svc.cjs', 'model', 'pull', `hf:${REPOSITORY}`],
  'curl, sha256sum': (file, url) => ['sh', '-c', CHECKED, 'sh', file, url],
};

/** Limits everything that the hub's store sends to this rate. */
function pace(hub: FakeHub, bytesPerSecond: number): void {
  const PIECE = 64 * 1024;
  const write = hub.write.bind(hub);
  let freeAt = performance.now();
  hub.write = async (res, body) => {
    for (let at = 0; at < body.length && !res.destroyed; at += PIECE) {
      const piece = body.subarray(at, at + PIECE);
      freeAt = Math.max(freeAt, performance.now()) + (piece.length / bytesPerSecond) * 1000;
      if (freeAt - performance.now() > 2) await sleep(freeAt - performance.now());
      await write(res, piece);
    }
  };
}

async function measure(title: string, hub: FakeHub): Promise<void> {
  const results = new Map<string, Run[]>();
  for (let run = 0; run < runs; run += 1) {
    for (const [name, command] of Object.entries(COMMANDS)) {
      const dir = await mkdtemp(join(tmpdir(), 'svc-bench-pull-'));
      const env = { SVC_HOME: join(dir, 'home'), HF_ENDPOINT: hub.endpoint };
      const result = await timed(command(join(dir, 'file'), `${hub.storeOrigin}/${REPOSITORY}/${FILE}`), env);
      results.set(name, [...(results.get(name) ?? []), result]);
      await rm(dir, { recursive: true });
    }
  }
  console.log(title);
  for (const [name, each] of results) {
    const seconds = median(each.map((run) => run.seconds));
    const rss = Math.max(...each.map((run) => run.mostRssBytes)) / MIB;
    console.log(
      `  ${name.padEnd(16)} ${seconds.toFixed(2)} s  ${(content.length / 1e6 / seconds).toFixed(0)} MB/s  peak ${rss.toFixed(0)} MiB`,
    );
  }
}

const content = modelOf(mebibytes * MIB);
const hub = await new FakeHub().start();
hub.add(REPOSITORY, FILE, content);
console.log(`${machine()}; ${mebibytes} MiB, median of ${runs} runs`);
try {
  await measure('loopback, server on the same cores', hub);
  pace(hub, 125e6);
  await measure('limited to 1 Gbit/s', hub);
} finally {
  await hub.stop();
}
