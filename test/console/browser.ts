/** A real browser, Debian's chromium, with the console of a real daemon. */
import { existsSync, mkdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { chromium, type Browser, type Page } from 'playwright-core';
import { assertExit } from '../support/exit.ts';
import { spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { configure, makeHome, type Home } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { svc } from '../support/svc.ts';

/** On an idle machine everything takes less than a second; an overloaded one needs longer. */
export const PATIENCE_MS = 180_000;
const PROGRAMS = ['chromium', 'chromium-browser', 'google-chrome'];

function browserPath(): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  return PROGRAMS.flatMap((name) => folders.map((folder) => join(folder, name))).find((path) => existsSync(path));
}

/** Why the tests of a browser cannot run; undefined: they can. */
export const noBrowser = browserPath() === undefined ? 'chromium is not installed' : undefined;

export interface Console {
  readonly home: Home;
  readonly daemon: DaemonProcess;
  readonly browser: Browser;
  /** `http://ADDRESS:PORT` */
  readonly url: string;
  /** Errors of the pages: exceptions, and what the content security policy refused. */
  readonly problems: readonly string[];
  /** Opens a page; `hash`: `#/models`. */
  open(hash?: string, options?: PageOptions): Promise<Page>;
  close(): Promise<void>;
}

export interface PageOptions {
  readonly theme?: 'light' | 'dark';
  readonly width?: number;
  readonly height?: number;
}

export interface ConsoleOptions {
  /** Test models (build/models) by the names that they get. */
  readonly models?: Readonly<Record<string, Parameters<typeof modelPath>[0]>>;
  /** Content of the config file. */
  readonly config?: object;
  readonly env?: Readonly<Record<string, string>>;
  /** Called before the daemon starts. */
  readonly prepare?: (home: Home) => Promise<void>;
}

export async function openConsole({ models = {}, config, env = {}, prepare }: ConsoleOptions = {}): Promise<Console> {
  const home = await makeHome();
  for (const [name, file] of Object.entries(models))
    assertExit(await svc(['model', 'add', modelPath(file), '--name', name], { home }), 0);
  if (config !== undefined) configure(home, config);
  await prepare?.(home);
  const daemon = await spawnDaemon(home, { env }).settled();
  const browser = await launch(home);
  const { http } = await daemon.client.status();
  const problems: string[] = [];
  const url = `http://${String(http)}`;
  return {
    home,
    daemon,
    browser,
    url,
    problems,
    open: async (hash = '', { theme = 'light', width = 1280, height = 800 } = {}) => {
      const page = await browser.newPage({ viewport: { width, height }, colorScheme: theme, reducedMotion: 'reduce' });
      page.setDefaultTimeout(PATIENCE_MS);
      watch(page, problems);
      await page.goto(`${url}/${hash}`);
      return page;
    },
    close: async () => {
      await browser.close();
      daemon.kill('SIGTERM');
      await daemon.exit;
      await home.remove();
    },
  };
}

/** Processes of the browser that outlive it now and then leave temporary files behind: they are in the home, too. */
export async function launch({ dir }: Home): Promise<Browser> {
  const executablePath = browserPath();
  if (executablePath === undefined) throw new Error('chromium is not installed');
  const temporary = join(dir, 'browser');
  mkdirSync(temporary);
  return await chromium.launch({
    executablePath,
    env: { ...process.env, TMPDIR: temporary },
    // Chromium's own sandbox refuses to run as root, as which containers run.
    args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
  });
}

/** Requests that fail are part of the tests; the browser reports each as an error of its own. */
const FAILED_REQUEST = /^Failed to load resource/;

function watch(page: Page, problems: string[]): void {
  page.on('pageerror', (error) => problems.push(error.stack ?? error.message));
  page.on('console', (message) => {
    if (message.type() === 'error' && !FAILED_REQUEST.test(message.text())) problems.push(message.text());
  });
}
