/** Runs a program on its own pseudo-terminal, as a user sees it; util-linux `script` creates the terminal. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { terminalCommand, type TerminalSize } from '../../scripts/steps/terminal-command.js';
import { childEnvironment } from '../../src/process/environment.ts';
import { waitFor } from './wait.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

export const KEYS = {
  ctrlC: '\u0003',
  ctrlD: '\u0004',
  ctrlZ: '\u001a',
  up: '\u001b[A',
  enter: '\r',
  tab: '\t',
} as const;

/** Reason to skip terminal tests on this machine; undefined if they can run. */
export const NO_TERMINAL: string | undefined =
  process.platform !== 'linux' || spawnSync('script', ['--version']).status !== 0
    ? 'util-linux `script`, which creates the terminal, is not installed'
    : undefined;

/** True if an optional program, such as a shell, is installed. */
export function isInstalled(program: string, args: readonly string[] = ['--version']): boolean {
  return spawnSync(program, args, { stdio: 'ignore' }).status === 0;
}

export class Terminal {
  /** Called with each piece of output. */
  onOutput: (text: string) => void = () => undefined;
  readonly #child: ChildProcess;
  readonly #end: Promise<number | null>;
  #screen = '';

  constructor(command: readonly string[], env: Readonly<Record<string, string | undefined>>, size: TerminalSize = {}) {
    const [program, args] = terminalCommand(command, size);
    this.#child = spawn(program, args, {
      cwd: ROOT,
      env: childEnvironment({ TERM: 'xterm', NO_COLOR: '1', SHELL: '/bin/sh', ...env }),
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#screen += text;
      this.onOutput(text);
    });
    this.#child.stdin?.on('error', () => undefined);
    this.#end = once(this.#child, 'close').then(([code]) => code as number | null);
  }

  /** Output since the last `clear`. */
  get raw(): string {
    return this.#screen;
  }

  /** The same, without cursor-control sequences. */
  get screen(): string {
    return this.#screen.replace(/\u001b\[[0-9;?]*[a-zA-Z]|\u001b[=>]/g, '').replaceAll('\r', '');
  }

  clear(): void {
    this.#screen = '';
  }

  type(keys: string): void {
    this.#child.stdin?.write(keys);
  }

  /** Waits until `what` is on the screen; returns the screen. */
  async shows(what: string | RegExp): Promise<string> {
    const isThere = (): boolean => (typeof what === 'string' ? this.screen.includes(what) : what.test(this.screen));
    try {
      await waitFor(`${String(what)} on the terminal`, isThere);
    } catch (error) {
      throw new Error(`not on the terminal: ${String(what)}\n${this.screen}`, { cause: error });
    }
    return this.screen;
  }

  /** Waits for the program to exit and returns its exit code. */
  async end(): Promise<number | null> {
    const { code } = await waitFor('the program on the terminal to end', async () => ({ code: await this.#end }));
    return code;
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }
}
