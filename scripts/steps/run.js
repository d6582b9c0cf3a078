/**
 * Runs long commands. Their output is hidden unless they fail, and a line every few seconds shows what is running and
 * for how long.
 */
import { spawn } from 'node:child_process';
import { root } from './root.js';

const HEARTBEAT_MS = 5_000;
const SHOWN_ON_FAILURE_BYTES = 64 * 1024;

/** A failed step, with a message that needs no stack trace. */
export class StepError extends Error {}

/** Prints a line with the seconds since the start of this program. */
export function say(text) {
  process.stderr.write(`[${String(Math.round(performance.now() / 1000)).padStart(3)} s] ${text}\n`);
}

/**
 * Runs `command` to its end and returns what it wrote to standard output, without warnings on standard error.
 * Throws StepError, with the end of both streams, if it cannot be started or does not exit with 0. `npm` is npm on each
 * platform.
 */
export async function run(title, command, args, { env = process.env, cwd = root } = {}) {
  const startedAt = performance.now();
  const answer = [];
  const output = [];
  say(title);
  // On Windows npm and the programs that it installs are batch files. Only a shell starts those.
  const shell = process.platform === 'win32' && /^npm$|\.cmd$/.test(command);
  const [program, ...words] = shell ? shellWords([command, ...args]) : [command, ...args];
  const child = spawn(program, words, { cwd, env, shell, stdio: ['ignore', 'pipe', 'pipe'] });
  child.stdout.on('data', (chunk) => {
    answer.push(chunk);
    output.push(chunk);
  });
  child.stderr.on('data', (chunk) => output.push(chunk));
  const heartbeat = setInterval(() => say(`${title} … ${lastLine(output)}`), HEARTBEAT_MS);
  try {
    const { code, signal } = await ending(child);
    if (code === 0) {
      say(`${title}: done in ${seconds(startedAt)} s`);
      return Buffer.concat(answer).toString();
    }
    const how = signal === null ? `exit ${code}` : signal;
    const text = Buffer.concat(output).toString().slice(-SHOWN_ON_FAILURE_BYTES);
    throw new StepError(`${text}\n${title}: failed (${how}): ${[command, ...args].join(' ')}`);
  } finally {
    clearInterval(heartbeat);
  }
}

/** Words of a command line of Windows' shell, quoted where it would split them or take a character for its own. */
export function shellWords(words) {
  return words.map((word) => (/^[\w\-./\\:@=+]+$/.test(word) ? word : `"${word}"`));
}

/**
 * Runs the main function of a script. A failed step, and an option or a word that `parseArgs` refuses, exits with 1 and
 * without a stack trace.
 */
export async function main(body) {
  try {
    await body();
  } catch (error) {
    if (!(error instanceof StepError) && !error?.code?.startsWith?.('ERR_PARSE_ARGS_')) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  }
}

export const seconds = (since) => ((performance.now() - since) / 1000).toFixed(1);

function ending(child) {
  return new Promise((resolve, reject) => {
    child.once('error', (error) => reject(new StepError(error.message)));
    child.once('close', (code, signal) => resolve({ code, signal }));
  });
}

function lastLine(output) {
  const tail =
    output
      .at(-1)
      ?.toString()
      .trimEnd()
      .split(/[\r\n]/)
      .at(-1) ?? '';
  return tail.slice(0, 100);
}
