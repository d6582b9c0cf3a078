/**
 * A daemon whose default model takes longer to load than commands wait. A planted module stops the engine before it
 * loads, and moves the clock of the command, so that no minute passes.
 */
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { ControlClient } from '../../src/client/control-client.ts';
import type { StatusRecord } from '../../src/protocol/records.ts';
import { assertExit } from '../support/exit.ts';
import type { Home } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { unless } from '../support/skip.ts';
import { spawnSvc, svc, type RunningSvc, type SvcResult } from '../support/svc.ts';
import { svcSuite } from '../support/svc-suite.ts';
import { waitFor } from '../support/wait.ts';

const test = svcSuite('slow start');
const windows = process.platform === 'win32' ? 'Windows cannot stop a process' : undefined;

/** While the file `hold` exists, a daemon's engines are stopped; a command's clock is ahead by what `late` says. */
const PLANT = `
const { appendFileSync, existsSync, readFileSync, writeFileSync } = require('node:fs');
const at = (name) => __dirname + '/' + name;
if (process.argv.includes('serve')) {
  const children = require('node:child_process');
  const { spawn } = children;
  children.spawn = (program, args, options) => {
    const child = spawn(program, args, options);
    if (existsSync(at('hold')) && options.stdio.length > 3) {
      process.kill(child.pid, 'SIGSTOP');
      appendFileSync(at('held'), child.pid + ' ');
    }
    return child;
  };
  require('node:module').syncBuiltinESMExports();
} else {
  const now = performance.now.bind(performance);
  let looks = 0;
  performance.now = () => {
    if (!existsSync(at('late'))) return now();
    // By then a command has asked the daemon again.
    if (++looks === 20) writeFileSync(at('seen'), '');
    return now() + Number(readFileSync(at('late'), 'utf8'));
  };
}`;

class SlowStart {
  readonly #home: Home;

  constructor(home: Home) {
    this.#home = home;
    writeFileSync(this.#at('plant.cjs'), PLANT);
  }

  #at(name: string): string {
    return join(this.#home.dir, name);
  }

  /** Runs a command that starts a daemon; resolves once its engine is stopped, with the command still waiting. */
  async begin(...args: string[]): Promise<RunningSvc> {
    for (const name of ['late', 'seen', 'held']) rmSync(this.#at(name), { force: true });
    writeFileSync(this.#at('hold'), '');
    const running = spawnSvc(args, this.#options());
    await waitFor('STARTING, without an engine', async () => {
      const { state } = await new ControlClient(this.#at('run/svc.sock')).ready();
      return state === 'STARTING' && this.#held().length > 0;
    });
    return running;
  }

  async run(...args: string[]): Promise<SvcResult> {
    return await svc(args, this.#options());
  }

  #options() {
    return { home: this.#home, env: { NODE_OPTIONS: `--require ${this.#at('plant.cjs')}` } };
  }

  /** Lets time pass for the command. */
  pass(seconds: number): void {
    writeFileSync(this.#at('late.new'), String(seconds * 1000));
    renameSync(this.#at('late.new'), this.#at('late'));
  }

  /** Resolves once the command has asked the daemon again after `pass`, or has ended. */
  async askedAgain({ child }: RunningSvc): Promise<void> {
    await waitFor('the command to ask again', () => existsSync(this.#at('seen')) || child.exitCode !== null);
  }

  /** Lets the engine load. */
  release(): void {
    rmSync(this.#at('hold'), { force: true });
    for (const pid of this.#held()) {
      try {
        process.kill(pid, 'SIGCONT');
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
      }
    }
  }

  #held(): number[] {
    if (!existsSync(this.#at('held'))) return [];
    return readFileSync(this.#at('held'), 'utf8').trim().split(' ').map(Number);
  }
}

unless(windows, test)('an error names only flags that the command has', async ({ home }) => {
  const slow = new SlowStart(home);
  try {
    const running = await slow.begin('run', 'hi');
    slow.pass(61);
    const late = await running.result;
    assertExit(late, 4);
    assert.match(late.stderr, /is still starting after 60 s .*\nhint: wait with `svc start --timeout 5m`, or see/);
    const start = await slow.run('start', '--timeout', '100ms');
    assertExit(start, 1);
    assert.match(start.stderr, /is still starting after 0\.1 s .*\nhint: give it more time with --timeout, or see/);
  } finally {
    slow.release();
  }
});

unless(windows, test)('restart waits for the default model, and then loads the others', async ({ home, run }) => {
  const slow = new SlowStart(home);
  assertExit(await run('model', 'add', modelPath('tiny-llama'), '--name', 'kept'), 0);
  assertExit(await run('start', '--timeout', '150s'), 0);
  assertExit(await run('model', 'load', 'kept', '--pin'), 0);
  try {
    const waiting = await slow.begin('restart', '--json');
    slow.pass(61);
    await slow.askedAgain(waiting);
    slow.release();
    const restarted = await waiting.result;
    assertExit(restarted, 0);
    const { loads } = JSON.parse(restarted.stdout) as StatusRecord;
    assert.equal(
      loads.find(({ model }) => model === 'kept'),
      { model: 'kept', keep_alive_seconds: -1, pin: true },
    );

    const running = await slow.begin('restart');
    slow.pass(601);
    const late = await running.result;
    assertExit(late, 1);
    assert.match(late.stderr, 'the old daemon has ended, but the new one does not serve: the daemon is still starting');
    assert.match(late.stderr, /hint: wait with `svc start --timeout 30m`, or see .*`svc model load`: (builtin, )?kept/);
  } finally {
    slow.release();
  }
});

test.run();
