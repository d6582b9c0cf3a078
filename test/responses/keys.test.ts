/** Background responses and the API key that asked for them, with the real key file. */
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Sessions } from '../../src/daemon/console/sessions.ts';
import { Keys } from '../../src/daemon/keys.ts';
import { addKey, removeKey } from '../../src/home/key-file.ts';
import { KeysSeen } from '../../src/home/keys-seen.ts';
import { CONSOLE_KEY } from '../../src/protocol/keys.ts';
import { NO_TRACES } from '../../src/protocol/traces/span.ts';
import { backgroundOf } from '../../src/responses/configured.ts';
import type { BackgroundRun } from '../../src/responses/background/run.ts';
import { ResponseStore } from '../../src/responses/response-store.ts';
import { recorder } from '../backends/local-support.ts';
import { hello } from '../http/scripted.ts';
import { rejection } from '../support/errors.ts';
import { waitFor } from '../support/wait.ts';

const CALLER = { kind: 'key', name: 'app', address: null, scope: 'inference' } as const;
const ASKED = {
  id: `resp_${'0'.repeat(32)}`,
  owner: 'key:app',
  caller: CALLER,
  body: { input: 'Hello', stream: true },
  items: [{ item: { type: 'message', role: 'user', content: 'Hello' }, place: 'input' }] as const,
};

interface Context {
  dir: string;
  keyFile: string;
  keys: Keys;
  sessions: Sessions;
  /** Number of look-ups of the key so far. */
  lookUps(): number;
  start(): Promise<BackgroundRun>;
}

const test = suite<Context>('background responses and keys');
test.before.each(async (context) => {
  context.dir = mkdtempSync(join(tmpdir(), 'svc-background-keys-'));
  context.keyFile = join(context.dir, 'keys.json');
  context.sessions = new Sessions();
  const log = recorder([]);
  context.keys = new Keys(context.keyFile, new KeysSeen(context.dir), log, context.sessions);
  await addKey(context.keyFile, 'app', 'inference');
  const onFailure = (): void => undefined;
  const dir = join(context.dir, 'responses');
  const store = new ResponseStore({ dir, enabled: true, keepMs: 1e9, mostBytes: 1e9, onFailure });
  let lookUps = 0;
  context.lookUps = () => lookUps;
  const counted = {
    has: async (name: string): Promise<boolean> => {
      lookUps += 1;
      return await context.keys.has(name);
    },
  };
  const responses = backgroundOf(store, { route: hello }, NO_TRACES, counted, log);
  context.start = async () => await responses.start(ASKED);
});
test.after.each(({ dir }) => rmSync(dir, { recursive: true, force: true }));

test('a response of a deleted key fails', async ({ keyFile, start }) => {
  await removeKey(keyFile, 'app');
  const run = await start();
  await run.finished;
  assert.is(run.response.status, 'failed');
});

for (const what of ['damaged', 'gone'] as const) {
  test(`while the key file is ${what} a response waits`, async ({ keys, keyFile, lookUps, start }) => {
    assert.ok(await keys.has('app'));
    const good = readFileSync(keyFile);
    if (what === 'damaged') writeFileSync(keyFile, '{"version":1,"keys":[');
    else renameSync(keyFile, `${keyFile}.away`);
    assert.match((await rejection(() => keys.has('app'), 'NOT_READY')).message, keyFile);

    const run = await start();
    await waitFor('a second attempt', () => lookUps() > 1);
    assert.is(run.response.status, 'queued');
    writeFileSync(keyFile, good, { mode: 0o600 });
    await run.finished;
    assert.is(run.response.status, 'completed');
  });
}

test('the sessions of the console do not depend on the key file', async ({ keys, keyFile, sessions }) => {
  writeFileSync(keyFile, 'damaged');
  sessions.signIn(sessions.newToken().token);
  assert.ok(await keys.has(CONSOLE_KEY));
});

test.run();
