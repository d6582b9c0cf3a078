/** The programs of docs/guides/apps.md run as they stand there, but for the port. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { root } from '../architecture/source-files.ts';
import { spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { makeHome, type Home } from '../support/home.ts';

const GUIDE = await readFile(join(root, 'docs/guides/apps.md'), 'utf8');
const PROGRAMS = [...GUIDE.matchAll(/^```js\n(.*?)^```$/gms)].map(([, program = '']) => program);

let home: Home;
let daemon: DaemonProcess;
let address: string;

test.before(async () => {
  home = await makeHome();
  daemon = await spawnDaemon(home).settled();
  address = String((await daemon.client.status()).http).replace(/^.*:\/\//, '');
});
test.after(async () => {
  daemon.kill('SIGTERM');
  await daemon.exit;
  await home.remove();
});

test('there are programs for both vendors', () => {
  assert.equal(
    PROGRAMS.map((program) => /from '(.*)'/.exec(program)?.[1]),
    ['openai', '@anthropic-ai/sdk'],
  );
});

for (const program of PROGRAMS) {
  test(`the program with ${String(/from '(.*)'/.exec(program)?.[1])} prints an answer`, async () => {
    const here = program.replaceAll('127.0.0.1:7117', address);
    assert.is.not(here, program);
    const args = ['--input-type=module', '--eval', here];
    const { stdout, stderr } = await promisify(execFile)(process.execPath, args, { cwd: root, timeout: 120_000 });
    assert.is(stderr, '');
    assert.ok(stdout.trim().length > 0);
  });
}

test.run();
