/**
 * Runs the CLI in its own process, as a user would.
 *
 * Runs dist/ if it is current (built.ts), because it starts several times faster; otherwise src/ through tsx.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { childEnvironment } from '../../src/process/environment.ts';
import { USES_DIST } from './built.ts';
import type { Home } from './home.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** A command takes a second or two; only a hung machine needs longer than this. */
const TIMEOUT_MS = 180_000;

/** Program and leading arguments that run `svc`, from any directory. */
export const SVC_COMMAND: readonly string[] = [
  process.execPath,
  ...(USES_DIST
    ? [join(ROOT, 'bin', 'svc.cjs')]
    : ['--import', import.meta.resolve('tsx'), join(ROOT, 'src', 'cli', 'main.ts')]),
];

export interface SvcOptions {
  readonly home: Home;
  /** Merged over the home's environment; undefined unsets a variable. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Standard input; /dev/null by default. */
  readonly input?: string | Buffer;
  /** Working directory; that of the project by default. */
  readonly cwd?: string;
  /** Time limit, after which the command is killed and the test fails. */
  readonly timeoutMs?: number;
}

export interface SvcResult {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunningSvc {
  readonly child: ChildProcess;
  /** Output so far. */
  stdout(): string;
  stderr(): string;
  readonly result: Promise<SvcResult>;
}

export async function svc(args: readonly string[], options: SvcOptions): Promise<SvcResult> {
  return await spawnSvc(args, options).result;
}

/** Starts a command that the test signals or whose output it reads while it runs. */
export function spawnSvc(
  args: readonly string[],
  { home, env = {}, input, cwd = ROOT, timeoutMs = TIMEOUT_MS }: SvcOptions,
): RunningSvc {
  const [program = '', ...before] = SVC_COMMAND;
  const child = spawn(program, [...before, ...args], {
    cwd,
    env: childEnvironment({ ...home.env, NO_COLOR: undefined, FORCE_COLOR: undefined, ...env }),
    stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
  });
  const written = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name]?.setEncoding('utf8').on('data', (text: string) => (written[name] += text));
  }
  // A command may exit before it has read its input.
  child.stdin?.on('error', () => undefined).end(input);
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    child.kill('SIGKILL');
  }, timeoutMs);
  const result = once(child, 'close').then(([code, signal]) => {
    clearTimeout(timer);
    const all = { code, signal, ...written } as SvcResult;
    if (isLate)
      throw new Error(`svc ${args.join(' ')} did not end within ${String(timeoutMs)} ms: ${JSON.stringify(all)}`);
    return all;
  });
  return { child, stdout: () => written.stdout, stderr: () => written.stderr, result };
}
