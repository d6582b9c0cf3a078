/**
 * Overhead of svc between a client and a provider: compares requests sent directly to a local server that answers at
 * once with the same requests sent through a daemon.
 *
 *   npm run bench:overhead
 *
 * Client, daemon and provider are separate processes. Nothing else should run on the machine. Writes its section of
 * docs/benchmarks.md.
 */
import { once } from 'node:events';
import { Agent, request } from 'undici';
import { MODEL, startOverhead } from './overhead/start.ts';
import { machine, writeSection } from './page.ts';
import { residentBytes } from './peers/servers/processes.ts';

const REQUESTS = 1000;
const LONG = 50_000;
const STREAMS = 16;
/** Requests of an hour, one every half second. */
const HOUR = 7200;
const CANCELS = 50;

const client = new Agent({ connections: STREAMS });

const overhead = await startOverhead();
const { direct } = overhead;
const svc = `${overhead.url}/v1`;

try {
  for (const url of [direct, svc]) await many(url, 200, 1);

  const [straight, through] = [await latency(direct), await latency(svc)];
  const one = LONG / (await seconds(() => many(svc, 1, LONG)));
  const all = (STREAMS * LONG) / 4 / (await seconds(() => many(svc, STREAMS, LONG / 4)));
  await many(svc, HOUR / 4, 20);
  const early = await residentBytes(overhead.pid);
  await many(svc, HOUR, 20);
  const late = await residentBytes(overhead.pid);

  const cancels: number[] = [];
  for (let n = 0; n < CANCELS; n++) cancels.push(await cancel());

  const mib = (bytes: number): string => `${(bytes / 1024 / 1024).toFixed(0)} MiB`;
  const figures = [
    ['added median latency, requests in sequence', `${(through - straight).toFixed(2)} ms`, 'below 3 ms'],
    ['chunks per second, one stream', one.toFixed(0), 'at least 2,000'],
    [`chunks per second, ${String(STREAMS)} streams together`, all.toFixed(0), 'at least 20,000'],
    [
      `time from a client's disconnect to the provider's, maximum of ${String(CANCELS)}`,
      `${Math.max(...cancels).toFixed(0)} ms`,
      'below 100 ms',
    ],
    [`resident memory of the daemon before and after ${String(HOUR)} requests`, `${mib(early)}, ${mib(late)}`, 'flat'],
  ];
  const text = `## Between a client and a provider

\`npm run bench:overhead\` sends requests to a local server that answers at once, directly and through a daemon. Client, daemon and server are
separate processes. Machine: ${machine()}.

| | measured | target |
|---|---|---|
${figures.map((row) => `| ${row.join(' | ')} |`).join('\n')}
`;
  await writeSection(text);
  console.log(text);
} finally {
  await overhead.stop();
  await client.close();
}

/** Disconnects during an answer; returns the milliseconds until the provider sees the disconnect. */
async function cancel(): Promise<number> {
  const controller = new AbortController();
  const { body } = await request(`${svc}/chat/completions`, {
    dispatcher: client,
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: '1e9' }], stream: true }),
    signal: controller.signal,
  });
  body.on('error', () => undefined);
  await once(body, 'data');
  const from = performance.timeOrigin + performance.now();
  controller.abort();
  return Number(await overhead.line()) - from;
}

/** Reads a streamed answer to its end. Throws if more than 5 % of its chunks are missing. */
async function ask(url: string, chunks: number): Promise<void> {
  const { statusCode, body } = await request(`${url}/chat/completions`, {
    dispatcher: client,
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model: MODEL,
      messages: [{ role: 'user', content: String(chunks) }],
      stream: true,
    }),
    bodyTimeout: 0,
  });
  let words = 0;
  for await (const piece of body as AsyncIterable<Buffer>) {
    for (let at = piece.indexOf(' word'); at !== -1; at = piece.indexOf(' word', at + 5)) words++;
  }
  // A word split between two buffers is not counted.
  if (statusCode !== 200 || words < chunks * 0.95)
    throw new Error(`${url}: status ${String(statusCode)}, ${String(words)} words`);
}

/** Reads `requests` answers of `chunks` chunks each, STREAMS at a time. */
async function many(url: string, requests: number, chunks: number): Promise<void> {
  let left = requests;
  const worker = async (): Promise<void> => {
    while (left-- > 0) await ask(url, chunks);
  };
  await Promise.all(Array.from({ length: STREAMS }, worker));
}

/** Returns the median latency of REQUESTS requests in sequence, in milliseconds. */
async function latency(url: string): Promise<number> {
  const times: number[] = [];
  for (let n = 0; n < REQUESTS; n++) times.push((await seconds(() => ask(url, 1))) * 1000);
  return times.sort((a, b) => a - b)[REQUESTS / 2] ?? 0;
}

async function seconds(work: () => Promise<void>): Promise<number> {
  const from = performance.now();
  await work();
  return (performance.now() - from) / 1000;
}
