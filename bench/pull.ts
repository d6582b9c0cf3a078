/**
 * How fast a gigabyte is pulled, beside curl from the same server, with the memory it takes:
 *
 *   node --import tsx bench/pull.ts [MEBIBYTES] [RUNS]
 *
 * The file is a GGUF of pseudo-random weights. curl writes the file and knows no digest, so there is a row with sha256sum
 * behind it; the pull has checked it, synced it and registered the model when its clock stops.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { cpus, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { FakeHub } from '../test/models/pull/fake-hub.ts';
import { MIB, modelOf } from '../test/models/pull/pull-support.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const [mebibytes = 1024, runs = 5] = process.argv.slice(2).map(Number);

interface Run {
  readonly seconds: number;
  readonly mostRssBytes: number;
}

/** The peak is read while it runs: it is gone with the process. */
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
  if (code !== 0) throw new Error(`${command.join(' ')} ended with ${String(code)}`);
  return { seconds: (performance.now() - startedAt) / 1000, mostRssBytes };
}

const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

const content = modelOf(mebibytes * MIB);
const hub = await new FakeHub().start();
hub.add('acme/m', 'm-Q4_0.gguf', content);
const results = new Map<string, Run[]>([
  ['curl', []],
  ['curl, sha256sum', []],
  ['svc model pull', []],
]);
try {
  for (let run = 0; run < runs; run += 1) {
    const dir = await mkdtemp(join(tmpdir(), 'svc-bench-pull-'));
    const from = `${hub.storeOrigin}/acme/m/m-Q4_0.gguf`;
    const fetched = join(dir, 'curl.gguf');
    results.get('curl')?.push(await timed(['curl', '--silent', '--output', fetched, from], {}));
    const checked = 'curl --silent --output "$1" "$2" && sha256sum "$1"';
    results.get('curl, sha256sum')?.push(await timed(['sh', '-c', checked, 'sh', fetched, from], {}));
    const env = { SVC_HOME: join(dir, 'home'), HF_ENDPOINT: hub.endpoint };
    results
      .get('svc model pull')
      ?.push(await timed([process.execPath, 'bin/svc.js', 'model', 'pull', 'hf:acme/m'], env));
    await rm(dir, { recursive: true });
  }
} finally {
  await hub.stop();
}

console.log(
  `${cpus()[0]?.model ?? '?'}, ${cpus().length} cores, ${(totalmem() / 2 ** 30).toFixed(0)} GiB, Node ${process.version}`,
);
console.log(`${mebibytes} MiB over loopback, median of ${runs} runs, the server on the same cores`);
for (const [name, each] of results) {
  const seconds = median(each.map((run) => run.seconds));
  const rss = Math.max(...each.map((run) => run.mostRssBytes)) / MIB;
  console.log(
    `${name.padEnd(16)} ${seconds.toFixed(2)} s  ${(content.length / 1e6 / seconds).toFixed(0)} MB/s  peak ${rss.toFixed(0)} MiB`,
  );
}
