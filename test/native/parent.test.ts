/** dieWithParent: a child process does not outlive its parent. */
import { spawn } from 'node:child_process';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { addonPath } from '../../src/engine/loader.ts';
import { waitFor } from '../support/wait.ts';

const addon = JSON.stringify(addonPath());

const exists = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

if (process.platform === 'linux') {
  test('a child whose JavaScript thread is blocked dies with its parent', async () => {
    const child = `require(${addon}).dieWithParent(process.ppid); console.log(process.pid); for (;;);`;
    const parent = `require('node:child_process').spawn(process.execPath, ['-e', ${JSON.stringify(child)}], { stdio: 'inherit' }); setInterval(() => {}, 1000);`;
    const started = spawn(process.execPath, ['-e', parent], { stdio: ['ignore', 'pipe', 'inherit'] });
    const pid = await new Promise<number>((resolve) =>
      started.stdout.once('data', (line: Buffer) => resolve(Number(line.toString()))),
    );
    assert.ok(exists(pid));
    started.kill('SIGKILL');
    await waitFor('the child to die', () => !exists(pid));
  });

  test('a child whose parent has already exited dies at once', async () => {
    const child = spawn(process.execPath, ['-e', `require(${addon}).dieWithParent(1073741823); for (;;);`]);
    const signal = await new Promise((resolve) => child.once('exit', (_, name) => resolve(name)));
    assert.is(signal, 'SIGKILL');
  });
} else {
  test('on other systems it does nothing', () => {
    assert.ok(exists(process.pid));
  });
}

test.run();
