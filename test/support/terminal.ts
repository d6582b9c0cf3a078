/** A program on a terminal of its own, as a person at a keyboard sees it; util-linux `script` makes the terminal. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { childEnvironment } from '../../src/config/environment.ts';
import { waitFor } from './wait.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

export const KEYS = { ctrlC: '\u0003', ctrlD: '\u0004', up: '\u001b[A', enter: '\r', tab: '\t' } as const;

/** undefined: terminals can be made here. Otherwise the reason why a test of them is skipped. */
export const NO_TERMINAL: string | undefined =
  process.platform !== 'linux' || spawnSync('script', ['--version']).status !== 0
    ? 'there is no util-linux `script`, which makes the terminal'
    : undefined;

/** A shell or another program that a test needs and may do without. */
export function isInstalled(program: string, args: readonly string[] = ['--version']): boolean {
  return spawnSync(program, args, { stdio: 'ignore' }).status === 0;
}

export class Terminal {
  readonly #child: ChildProcess;
  readonly #end: Promise<number | null>;
  #screen = '';

  constructor(command: readonly string[], env: Readonly<Record<string, string | undefined>>) {
    const quoted = command.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');
    this.#child = spawn('script', ['--quiet', '--return', '--flush', '--command', quoted, '/dev/null'], {
      cwd: ROOT,
      env: childEnvironment({ TERM: 'xterm', NO_COLOR: '1', SHELL: '/bin/sh', ...env }),
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => (this.#screen += text));
    this.#child.stdin?.on('error', () => undefined);
    this.#end = once(this.#child, 'close').then(([code]) => code as number | null);
  }

  /** All that was written since the last `clear`, without the sequences that move the cursor. */
  get screen(): string {
    return this.#screen.replace(/\u001b\[[0-9;?]*[a-zA-Z]|\u001b[=>]/g, '').replaceAll('\r', '');
  }

  clear(): void {
    this.#screen = '';
  }

  type(keys: string): void {
    this.#child.stdin?.write(keys);
  }

  /** Waits until it stands on the screen. */
  async shows(what: string | RegExp): Promise<string> {
    const isThere = (): boolean => (typeof what === 'string' ? this.screen.includes(what) : what.test(this.screen));
    try {
      await waitFor(`${String(what)} on the terminal`, isThere);
    } catch (error) {
      throw new Error(`not on the terminal: ${String(what)}\n${this.screen}`, { cause: error });
    }
    return this.screen;
  }

  /** The exit code of the program. */
  async end(): Promise<number | null> {
    const { code } = await waitFor('the program on the terminal to end', async () => ({ code: await this.#end }));
    return code;
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }
}
