/**
 * Pictures of each view for docs/console.md, in both themes and three widths, of a real daemon that has something to do.
 *
 *   npm run screenshots [-- PATTERN]     only those whose name contains PATTERN
 */
import { mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { startUpstream, type Turn } from '../backends/cloud/upstream.ts';
import { root } from '../architecture/source-files.ts';
import { svc } from '../support/svc.ts';
import { openConsole, type Console } from './browser.ts';
import { settle, VIEWS, type View } from './views.ts';

const FOLDER = join(root, 'docs', 'images');
const MOST_BYTES = 3_000_000;
const SIZES = [
  { width: 360, height: 740 },
  { width: 1280, height: 800 },
  { width: 3840, height: 2160 },
] as const;
/** Wider pictures are scaled down, to `SMALL`. */
const WIDEST = 1280;
const SMALL = 1024;
/** Samples of the live figures that the plots show. */
const SAMPLES = 12;

const ANSWER = `A mutex lets **one** thread in at a time; a semaphore lets in as many as you say.

| | lets in | who unlocks |
|---|---|---|
| mutex | 1 | the thread that locked it |
| semaphore | n | any thread |

\`\`\`python
slots = threading.Semaphore(4)
with slots:            # at most four at a time
    fetch(url)
\`\`\`

Take a mutex for data, and a semaphore for *capacity*.`;

/** Tells the whole answer to the chat, and goes on for ever for other requests, which the view Now then shows. */
async function answer(turn: Turn): Promise<void> {
  const delta = (content: string): object => ({ choices: [{ index: 0, delta: { content } }] });
  if (turn.request.method === 'GET') {
    turn.json(200, {});
    return;
  }
  if (turn.request.body.messages.at(-1).content.startsWith('Count')) {
    for (let number = 1; !turn.isOver; number++) {
      await turn.event(delta(`${number} `));
      await new Promise((resolve) => setTimeout(resolve, 40));
    }
    return;
  }
  await turn.event({ choices: [{ index: 0, delta: { reasoning_content: 'They ask for the difference.' } }] });
  for (const word of ANSWER.split(/(?<= )/)) await turn.event(delta(word));
  await turn.event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
  await turn.event({ choices: [], usage: { prompt_tokens: 24, completion_tokens: 118 } });
  await turn.event('[DONE]');
  turn.end();
}

async function main(pattern: string): Promise<void> {
  const upstream = await startUpstream(answer);
  const served = await openConsole({
    models: { tiny: 'tiny-llama', thinker: 'tiny-thinker' },
    config: {
      providers: { farm: { base_url: `${upstream.url}/v1`, default_model: 'sage' } },
      policies: { thrifty: { candidates: ['local', 'farm/sage'] } },
    },
  });
  const stop = new AbortController();
  try {
    await giveWork(served, stop.signal);
    await mkdir(FOLDER, { recursive: true });
    for (const theme of ['light', 'dark'] as const)
      for (const size of SIZES) await picturesOf(served, theme, size, pattern);
  } finally {
    stop.abort();
    await served.close();
    await upstream.close();
  }
  if (served.problems.length > 0) throw new Error(served.problems.join('\n'));
  await checkTotal();
}

/** Two requests that do not end, and some that do. */
async function giveWork({ url, home }: Console, signal: AbortSignal): Promise<void> {
  const post = (model: string, content: string): Promise<Response> =>
    fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model, stream: true, messages: [{ role: 'user', content }] }),
      signal,
    });
  // Read to the end, which never comes: an answer that is not read is ended.
  for (const content of ['Count', 'Count on']) {
    const { body } = await post('farm/sage', content);
    void body?.pipeTo(new WritableStream(), { signal }).catch(() => undefined);
  }
  for (let round = 0; round < 6; round++)
    for (const model of ['builtin', 'farm/sage']) await (await post(model, 'Hello')).text();
  await svc(['run', '-m', 'thinker', '--max-tokens', '20', 'Hello'], { home });
}

async function picturesOf(
  served: Console,
  theme: 'light' | 'dark',
  size: (typeof SIZES)[number],
  pattern: string,
): Promise<void> {
  const wanted = VIEWS.filter((view) => nameOf(view, theme, size.width).includes(pattern));
  if (wanted.length === 0) return;
  const page = await served.open('#/chat', { theme, ...size });
  await page.getByLabel('Model', { exact: true }).selectOption('farm/sage');
  await page.getByRole('textbox', { name: 'Message' }).fill('Mutex or semaphore?');
  await page.keyboard.press('Enter');
  await page.getByText('24 + 118 tokens').waitFor();
  for (const view of wanted) {
    await settle(page, view);
    await prepare(page, view);
    const picture = await page.screenshot({ animations: 'disabled' });
    const small = size.width <= WIDEST ? picture : await scaled(served.browser, picture, SMALL / size.width);
    await writeFile(join(FOLDER, nameOf(view, theme, size.width)), small);
  }
  await page.close();
}

/** Waits for what is worth a picture. */
async function prepare(page: Page, view: View): Promise<void> {
  if (view === 'now') {
    const isEnough = (least: number): boolean =>
      Number(document.querySelector<HTMLElement>('[data-samples]')?.dataset['samples']) >= least;
    await page.waitForFunction(isEnough, SAMPLES, { timeout: 60_000 });
  }
  if (view === 'health') {
    await page.getByRole('button', { name: 'Run all checks' }).click();
    await page.getByRole('heading', { name: 'node', exact: true }).waitFor({ timeout: 90_000 });
  }
  if (view === 'usage') await page.getByRole('table').waitFor();
}

async function scaled(browser: Browser, picture: Buffer, factor: number): Promise<Buffer> {
  const page = await browser.newPage();
  const base64 = await page.evaluate(
    async ({ data, by }) => {
      const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
      const image = await createImageBitmap(new Blob([bytes]), { resizeQuality: 'high' });
      const canvas = document.createElement('canvas');
      canvas.width = Math.round(image.width * by);
      canvas.height = Math.round(image.height * by);
      const context = canvas.getContext('2d');
      if (context === null) throw new Error('no canvas');
      context.imageSmoothingQuality = 'high';
      context.drawImage(image, 0, 0, canvas.width, canvas.height);
      return canvas.toDataURL('image/png').replace(/^[^,]*,/, '');
    },
    { data: picture.toString('base64'), by: factor },
  );
  await page.close();
  return Buffer.from(base64, 'base64');
}

async function checkTotal(): Promise<void> {
  const names = (await readdir(FOLDER)).filter((name) => name.startsWith('console-'));
  const sizes = await Promise.all(names.map(async (name) => (await stat(join(FOLDER, name))).size));
  const total = sizes.reduce((sum, size) => sum + size, 0);
  process.stdout.write(`${names.length} pictures, ${(total / 1e6).toFixed(2)} MB\n`);
  if (total > MOST_BYTES) throw new Error(`the pictures are larger than ${MOST_BYTES / 1e6} MB`);
}

function nameOf(view: View, theme: string, width: number): string {
  return `console-${view}-${theme}-${width}.png`;
}

await main(process.argv[2] ?? '');
