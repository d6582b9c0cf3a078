/**
 * Cost of each API's stream: the same long answer of a local provider that answers at once, read through svc in the
 * format of every API, in turns.
 *
 *   npm run bench:apis
 *
 * Client, daemon and provider are separate processes. Nothing else should run on the machine. Writes its section of
 * docs/benchmarks.md.
 */
import { Agent, request } from 'undici';
import { MODEL, startOverhead } from './overhead/start.ts';
import { machine, writeSection } from './page.ts';
import { median } from './peers/scenario.ts';

const CHUNKS = 50_000;
const ROUNDS = 7;

const CHAT = { model: MODEL, messages: [{ role: 'user', content: String(CHUNKS) }], stream: true };

interface Api {
  readonly name: string;
  readonly path: string;
  readonly body: object;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The first is the one that the others are compared with. */
const APIS: readonly Api[] = [
  { name: 'OpenAI chat completions', path: '/v1/chat/completions', body: CHAT },
  {
    name: 'OpenAI Responses',
    path: '/v1/responses',
    body: { model: MODEL, input: String(CHUNKS), stream: true, store: false },
  },
  {
    name: 'OpenAI Responses, in the background',
    path: '/v1/responses',
    body: { model: MODEL, input: String(CHUNKS), stream: true, background: true },
  },
  {
    name: 'Anthropic Messages',
    path: '/v1/messages',
    body: { ...CHAT, max_tokens: 100_000 },
    headers: { 'anthropic-version': '2023-06-01' },
  },
  { name: 'Ollama chat', path: '/api/chat', body: CHAT },
];

const client = new Agent();
const overhead = await startOverhead();
try {
  const rates = new Map<Api, number[]>(APIS.map((api) => [api, []]));
  for (let round = 0; round <= ROUNDS; round++) {
    for (const api of APIS) {
      const from = performance.now();
      await read(api);
      // The first round warms up.
      if (round > 0) rates.get(api)?.push((CHUNKS * 1000) / (performance.now() - from));
    }
  }
  const [first = [], ...others] = [...rates.values()];
  const rows = APIS.map(({ name }, index) => {
    const mine = index === 0 ? first : (others[index - 1] ?? []);
    const ratios = mine.map((rate, round) => rate / (first[round] ?? rate));
    return `| ${name} | ${median(mine).toFixed(0)} | ${median(ratios).toFixed(2)} |`;
  });
  const text = `## The stream of each API

\`npm run bench:apis\` reads an answer of ${CHUNKS.toLocaleString('en')} chunks of a local provider that answers at once, through svc in the format of
each API: medians of ${String(ROUNDS)} rounds, in turns. One chunk of the provider is one event of each API. Client, daemon and
provider are separate processes. Machine: ${machine()}.

| API | chunks per second | part of chat completions |
|---|---|---|
${rows.join('\n')}
`;
  await writeSection(text);
  console.log(text);
} finally {
  await overhead.stop();
  await client.close();
}

/** Reads the answer to its end. Throws if more than 5 % of its chunks are missing. */
async function read({ name, path, body, headers = {} }: Api): Promise<void> {
  const answer = await request(`${overhead.url}${path}`, {
    dispatcher: client,
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
    bodyTimeout: 0,
  });
  let words = 0;
  for await (const piece of answer.body as AsyncIterable<Buffer>) {
    for (let at = piece.indexOf(' word'); at !== -1; at = piece.indexOf(' word', at + 5)) words++;
  }
  // A word split between two buffers is not counted.
  if (answer.statusCode !== 200 || words < CHUNKS * 0.95)
    throw new Error(`${name}: status ${String(answer.statusCode)}, ${String(words)} words`);
}
