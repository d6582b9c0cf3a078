/** Runs programs of another platform one after the other, and keeps how each of them ended. */
import { spawn } from 'node:child_process';
import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { say, seconds } from './run.js';

/** For a program; the slowest takes two minutes on two idle cores. */
const LIMIT_MS = 600_000;

export class Trials {
  /** `[{ name, ok, seconds }]` */
  results = [];
  #folder;
  #env;
  #outputs = 0;

  /** `folder`: the programs' directory, which also holds their output. */
  constructor(folder, env) {
    this.#folder = folder;
    this.#env = env;
  }

  get failed() {
    return this.results.filter(({ ok }) => !ok).length;
  }

  /**
   * Runs a program to its end; returns its output, both streams together. It fails if it does not exit with `code`, or
   * if the output does not match `expected`, and is shown then.
   */
  async run(name, [program, ...args], { expected = /(?:)/, code = 0, env = {} } = {}) {
    return await this.check(name, async () => {
      // A file, because Node for Windows does not write to a pipe of Wine's; one of its own, because programs may overlap.
      const path = join(this.#folder, `output-${++this.#outputs}`);
      const output = await open(path, 'w');
      const stdio = ['ignore', output.fd, output.fd];
      const child = spawn(program, args, {
        ...{ cwd: this.#folder, env: { ...this.#env, ...env }, stdio, timeout: LIMIT_MS },
      });
      const ended = await new Promise((resolve, reject) => {
        child.once('error', reject);
        child.once('close', (status, signal) => resolve(status ?? signal));
      }).finally(() => output.close());
      const text = await readFile(path, 'utf8');
      return { text, problem: ended !== code ? `exit ${ended}` : expected.test(text) ? null : 'unexpected output' };
    });
  }

  /** Counts a trial that `body` makes: it returns `{ text, problem }`, problem null if all is well, or throws. */
  async check(name, body) {
    const startedAt = performance.now();
    const { text, problem } = await body().catch((error) => ({ text: '', problem: error.message }));
    const ok = problem === null;
    say(`${ok ? 'passed' : `FAILED (${problem})`}: ${name}, ${seconds(startedAt)} s`);
    if (!ok) process.stderr.write(text);
    this.results.push({ name, ok, seconds: Number(seconds(startedAt)) });
    return text;
  }

  /** Prints the sums as the last line. */
  report() {
    process.stdout.write(`${this.results.length - this.failed} passed, ${this.failed} failed\n`);
    if (this.failed > 0) process.exitCode = 1;
  }
}
