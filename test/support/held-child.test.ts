/** A child is held once it runs a program of its own: before that, its parent would wait for it without end. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { childrenOf, holdNextChild } from './held-child.ts';
import { waitFor } from './wait.ts';

/** Forks after a first line; the child becomes another program after a second. */
const PARENT = 'exec 3<&0; read line; (read line <&3; exec sleep 1000) & wait';
/** Enough for the next looks at the processes, even on a busy machine. */
const LOOKS_MS = 200;

test('a child is not held between fork and exec', async () => {
  if (process.platform !== 'linux') return;
  const parent = spawn('/bin/sh', ['-c', PARENT], { stdio: ['pipe', 'ignore', 'inherit'] });
  const pid = parent.pid as number;
  const held = holdNextChild(pid);
  try {
    parent.stdin.write('\n');
    const [child] = await waitFor('the child', () => (childrenOf(pid).length > 0 ? childrenOf(pid) : undefined));
    assert.is(await Promise.race([held, sleep(LOOKS_MS, 'not yet')]), 'not yet');
    parent.stdin.write('\n');
    assert.is(await held, child);
    assert.is(readFileSync(`/proc/${child}/cmdline`, 'latin1'), 'sleep\x001000\0');
  } finally {
    for (const child of childrenOf(pid)) process.kill(child, 'SIGKILL');
    parent.kill('SIGKILL');
    await once(parent, 'exit');
  }
});

test.run();
