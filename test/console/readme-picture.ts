/** A picture of README.md as GitHub shows it, docs/images/readme.png; part of `npm run screenshots`. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { marked } from 'marked';
import type { Page } from 'playwright-core';
import { root } from '../architecture/source-files.ts';
import { makeHome } from '../support/home.ts';
import { launch } from './browser.ts';

const FILE = join(root, 'docs', 'images', 'readme.png');
const MOST_BYTES = 1_000_000;
/** Requests to it are answered with files of the project. */
const ORIGIN = 'http://readme.invalid';
/** GitHub's column of text has 838 pixels, and a margin of 32. */
const WIDTH = 902;
/** What of GitHub's style changes the layout. */
const STYLE = `
body { margin: 0; padding: 32px; font: 16px/1.5 -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; color: #1f2328; }
h1, h2 { padding-bottom: .3em; border-bottom: 1px solid #d1d9e0; }
h1, h2 { margin: 24px 0 16px; font-weight: 600; line-height: 1.25; }
h1 { font-size: 2em; margin-top: 0; }
h2 { font-size: 1.5em; }
p, ul, table, pre { margin: 0 0 16px; }
ul { padding-left: 2em; }
li + li { margin-top: .25em; }
a { color: #0969da; }
img { max-width: 100%; }
code { padding: .2em .4em; font: 85% ui-monospace, "DejaVu Sans Mono", "Liberation Mono", monospace; background: #818b981f; border-radius: 6px; }
pre { padding: 16px; overflow: auto; line-height: 1.45; background: #f6f8fa; border-radius: 6px; }
pre code { padding: 0; background: none; }
table { display: block; width: max-content; max-width: 100%; overflow: auto; border-collapse: collapse; }
th, td { padding: 6px 13px; border: 1px solid #d1d9e0; }
tr:nth-child(2n) td { background: #f6f8fa; }
`;

const home = await makeHome();
const browser = await launch(home);
try {
  const page = await browser.newPage({ viewport: { width: WIDTH, height: 800 }, reducedMotion: 'reduce' });
  await page.route('**/*', async (route) => {
    const { pathname } = new URL(route.request().url());
    if (pathname === '/') await route.fulfill({ contentType: 'text/html', body: await documentOf('README.md') });
    else if (pathname.endsWith('.svg'))
      await route.fulfill({ contentType: 'image/svg+xml', body: await stillOf(pathname) });
    else await route.fulfill({ path: join(root, pathname) }).catch(() => route.fulfill({ status: 404 }));
  });
  await page.goto(ORIGIN, { waitUntil: 'networkidle' });
  await check(page);
  const picture = await page.screenshot({ fullPage: true });
  if (picture.length > MOST_BYTES) throw new Error(`${FILE} has ${picture.length} bytes`);
  await writeFile(FILE, picture);
  process.stdout.write(`README.md, ${(picture.length / 1000).toFixed(0)} kB\n`);
} finally {
  await browser.close();
  await home.remove();
}

async function documentOf(path: string): Promise<string> {
  const body = await marked.parse(await readFile(join(root, path), 'utf8'), { gfm: true });
  return `<!doctype html><meta charset="utf-8"><title>${path}</title><style>${STYLE}</style><body>${body}</body>`;
}

/** A recording without its animations is its last screen. */
async function stillOf(path: string): Promise<string> {
  return (await readFile(join(root, path), 'utf8')).replaceAll(/animation(-name)?:[^;}"]+/g, '');
}

/** Throws if an image is missing, or a table or a line of code is wider than the page. */
async function check(page: Page): Promise<void> {
  const problems = await page.evaluate(() => {
    const missing = [...document.images].filter((image) => image.naturalWidth === 0).map((image) => image.src);
    const wide = [...document.querySelectorAll('table, pre')].filter((each) => each.scrollWidth > each.clientWidth);
    return [...missing, ...wide.map((each) => `too wide: ${each.textContent.slice(0, 60)}`)];
  });
  if (problems.length > 0) throw new Error(problems.join('\n'));
}
