/** The task and the batch file of the service on Windows, as text; `node scripts/wine.js` runs the batch file. */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { ServiceDefinition } from '../../src/service/definition.ts';
import { scheduledTask, serviceScript } from '../../src/service/scheduled-task.ts';
import { makeHome, type Home } from '../support/home.ts';

const DEFINITION: ServiceDefinition = {
  command: ['C:\\Program Files\\nodejs\\node.exe', 'C:\\svc\\bin\\svc.js', 'serve', '--mode', 'service'],
  environment: { SVC_HOME: 'D:\\100% mine' },
  writable: [],
  shared: [],
  socket: '\\\\.\\pipe\\svc-1',
  address: '127.0.0.1:7117',
  errorLog: 'C:\\state\\daemon.stderr',
};

const test = suite<{ home: Home }>('scheduled task');
test.before.each(async (context) => {
  context.home = await makeHome();
});
test.after.each(async ({ home }) => {
  await home.remove();
});

test('the batch file sets the variables, and starts again only after a crash', () => {
  const lines = serviceScript(DEFINITION).split('\r\n');
  assert.ok(lines.includes('set "SVC_HOME=D:\\100%% mine"'));
  const [start, run, ...rest] = lines.slice(lines.indexOf(':start'));
  assert.is(start, ':start');
  assert.is(
    run,
    '"C:\\Program Files\\nodejs\\node.exe" "C:\\svc\\bin\\svc.js" "serve" "--mode" "service" 2>>"C:\\state\\daemon.stderr.service"',
  );
  const order = ['set code=', 'if %code% equ 0 exit', 'if %code% geq 64 if %code% leq 78 exit', 'ping', 'goto start'];
  for (const [at, words] of order.entries()) assert.ok(rest[at]?.startsWith(words), rest[at]);
});

test('the task is one document of XML without a character beyond ASCII', ({ home }) => {
  const task = scheduledTask('HOME\\Zoë & <b>', 'C:\\Users\\Zoë (R&D) 5%\\serve.cmd');
  assert.match(task, /^[ -~\r\n]*$/);
  const file = join(home.dir, 'task.xml');
  writeFileSync(file, task);
  const program =
    'import sys,json,xml.etree.ElementTree as t; print(json.dumps([e.text for e in t.parse(sys.argv[1]).iter()]))';
  const texts = JSON.parse(execFileSync('python3', ['-c', program, file], { encoding: 'utf8' })) as unknown[];
  assert.is(texts.filter((text) => text === 'HOME\\Zoë & <b>').length, 2);
  assert.is(texts.at(-1), '--headless cmd.exe /d /s /c "C:\\Users\\Zoë^ ^(R^&D^)^ 5^%\\serve.cmd"');
});

test.run();
