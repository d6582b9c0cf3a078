/** Obstacles at the log path, or a stalled disk: logging neither throws nor blocks, and lines are written later. */
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { LogFile } from '../../src/log/log-file.ts';
import { waitFor } from '../support/wait.ts';

const scratch = mkdtempSync(join(tmpdir(), 'svc-log-troubles-'));
test.after(() => {
  rmSync(scratch, { recursive: true, force: true });
});

/** Obstacles: each blocks the file `log` in `state` and returns a function that removes the obstacle. */
const TROUBLES: Record<string, (state: string, log: string) => () => void> = {
  'a file in the place of the directory': (state) => {
    renameSync(state, `${state}.away`);
    writeFileSync(state, '');
    return () => {
      rmSync(state);
      renameSync(`${state}.away`, state);
    };
  },
  'a loop of links in the place of the directory': (state) => {
    renameSync(state, `${state}.away`);
    symlinkSync(state, state);
    return () => {
      rmSync(state);
      renameSync(`${state}.away`, state);
    };
  },
  'a FIFO in its place': (_, log) => {
    rmSync(log);
    execFileSync('mkfifo', [log]);
    return () => rmSync(log);
  },
  'a directory in its place': (_, log) => {
    rmSync(log);
    mkdirSync(log);
    return () => rmSync(log, { recursive: true });
  },
};

for (const [name, plant] of Object.entries(TROUBLES)) {
  test(`${name}: reported, and recovers by itself`, async () => {
    const state = join(scratch, name.replaceAll(' ', '-'));
    const path = join(state, 'daemon.log');
    const log = new LogFile(path);
    log.write('first\n');
    await waitFor('the first line', () => existsSync(path) && readFileSync(path, 'utf8') === 'first\n');
    assert.is(log.trouble, null);
    const mend = plant(state, path);
    log.write('second\n');
    await waitFor('the trouble', () => log.trouble !== null);
    log.write('third\n');
    mend();
    await waitFor('the lines', () => existsSync(path) && readFileSync(path, 'utf8').endsWith('second\nthird\n'));
    assert.is(log.trouble, null);
    await log.close();
  });

  test(`${name}: process exit does not wait for it`, async () => {
    const state = join(scratch, `${name.replaceAll(' ', '-')}-end`);
    const path = join(state, 'daemon.log');
    const log = new LogFile(path);
    log.write('first\n');
    await waitFor('the first line', () => existsSync(path) && readFileSync(path, 'utf8') === 'first\n');
    const mend = plant(state, path);
    log.write('second\n');
    log.flushSync();
    log.write('third\n');
    await log.close();
    log.write('fourth\n');
    mend();
  });
}

test('a line logged at the moment when the previous write completes is not lost', async () => {
  const path = join(scratch, 'moment', 'daemon.log');
  const log = new LogFile(path);
  for (let n = 0; n < 200; n++) {
    log.write(`${String(n)}\n`);
    await waitFor('the line', () => existsSync(path) && readFileSync(path, 'utf8').endsWith(`${String(n)}\n`), {
      intervalMs: 0,
    });
  }
  await log.close();
});

test.run();
