/**
 * What the console costs a browser: requests, bytes, and the time until something is shown and until the chat can be
 * used, with an empty cache.
 *
 *   npm run bench:console
 *
 * Writes its section of docs/benchmarks.md. REQUIRES: chromium.
 */
import { readdir, readFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Browser } from 'playwright-core';
import { CONSOLE } from '../scripts/steps/console.js';
import { root } from '../test/architecture/source-files.ts';
import { openConsole } from '../test/console/browser.ts';
import { machine, writeSection } from './page.ts';

const RUNS = 7;
/** Divisors of the processor's speed; Lighthouse takes 4 for a phone. */
const SLOWNESSES = [1, 4];
/** Sets `usable` to the time of the frame after which the message field can be focused. */
const WATCH = `
  globalThis.usable = null;
  new MutationObserver((_, observer) => {
    if (document.querySelector('textarea:not(:disabled)') === null) return;
    observer.disconnect();
    requestAnimationFrame(() => requestAnimationFrame(() => (globalThis.usable = performance.now())));
  }).observe(document, { subtree: true, childList: true, attributes: true });
`;
const PAINT = `performance.getEntriesByName('first-contentful-paint')[0]?.startTime`;

interface Visit {
  readonly requests: number;
  /** Received, with the headers. */
  readonly bytes: number;
  readonly firstViewMs: number;
  readonly usableMs: number;
}

async function visit(browser: Browser, url: string, slowness: number): Promise<Visit> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  await session.send('Network.enable');
  await session.send('Emulation.setCPUThrottlingRate', { rate: slowness });
  let [requests, bytes] = [0, 0];
  session.on('Network.requestWillBeSent', () => (requests += 1));
  session.on('Network.dataReceived', ({ encodedDataLength }) => (bytes += encodedDataLength));
  session.on('Network.responseReceived', ({ response }) => (bytes += response.encodedDataLength));
  await page.addInitScript(WATCH);
  await page.goto(url);
  await page.waitForFunction(`globalThis.usable !== null && ${PAINT} !== undefined`);
  const [firstViewMs, usableMs] = await page.evaluate<[number, number]>(
    `[${PAINT}, Math.max(${PAINT}, globalThis.usable)]`,
  );
  const result = { requests, bytes, firstViewMs, usableMs };
  await context.close();
  return result;
}

/** Median, with the least and the most in brackets. */
function summary(values: readonly number[], unit: string): string {
  const sorted = values.toSorted((a, b) => a - b).map((value) => Math.round(value));
  const [least, median, most] = [sorted[0], sorted[sorted.length >> 1], sorted.at(-1)];
  return `${String(median)} ${least === most ? '' : `(${String(least)}–${String(most)}) `}${unit}`.trimEnd();
}

/** Returns the size of all files of the page together, each compressed with gzip. */
async function compressedBytes(): Promise<number> {
  const names = await readdir(join(root, CONSOLE));
  const files = await Promise.all(names.map((name) => readFile(join(root, CONSOLE, name))));
  return files.reduce((sum, file) => sum + gzipSync(file).length, 0);
}

const [load = 0] = loadavg();
const served = await openConsole();
const rows: string[] = [];
try {
  await visit(served.browser, served.url, 1); // warms the daemon and the browser up
  for (const slowness of SLOWNESSES) {
    const visits: Visit[] = [];
    for (let run = 0; run < RUNS; run++) visits.push(await visit(served.browser, served.url, slowness));
    const of = (figure: (each: Visit) => number, unit: string): string => summary(visits.map(figure), unit);
    rows.push(
      `| ${slowness === 1 ? 'at its speed' : `slowed down ${String(slowness)} times`} ` +
        `| ${of(({ requests }) => requests, '')} | ${of(({ bytes }) => bytes / 1000, 'kB')} ` +
        `| ${of(({ firstViewMs }) => firstViewMs, 'ms')} | ${of(({ usableMs }) => usableMs, 'ms')} |`,
    );
  }
} finally {
  await served.close();
}

const report = `## The console in a browser

\`npm run bench:console\` opens the console in chromium with an empty cache, ${String(RUNS)} times for each row. Daemon and browser are
on the same machine: ${machine()}, load average before ${load.toFixed(1)}. Figures are medians, with the minimum and maximum in brackets, up to
the moment when the chat can be used. Received are bytes with headers, which svc sends uncompressed; with gzip the files
of the page have ${((await compressedBytes()) / 1000).toFixed(0)} kB.

| processor | requests | received | first view (first contentful paint) | chat usable |
|---|---|---|---|---|
${rows.join('\n')}
`;
process.stdout.write(report);
await writeSection(report);
