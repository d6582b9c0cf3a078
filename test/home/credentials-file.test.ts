/** The file that holds the keys of providers. */
import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { checkedKey, Credentials, removeCredential, saveCredential } from '../../src/home/credentials-file.ts';
import { rejection } from '../support/errors.ts';
import { makeHome, type Home } from '../support/home.ts';

const KEY = 'sk-credential-0123456789';

const test = suite<{ home: Home; path: string }>('credentials');
test.before.each(async (context) => {
  context.home = await makeHome();
  context.path = join(context.home.dir, 'data', 'credentials.json');
});
test.after.each(({ home }) => home.remove());

test('a key is stored readable only by its owner, found at once, and can be removed', async ({ path }) => {
  const credentials = new Credentials(path);
  assert.is(credentials.keyOf('openai'), null);
  await saveCredential(path, 'openai', KEY);
  assert.is(credentials.keyOf('openai'), KEY);
  assert.is(credentials.keyOf('groq'), null);
  assert.is(credentials.keyOf('constructor'), null);
  if (process.platform !== 'win32') assert.is(statSync(path).mode & 0o777, 0o600);
  await saveCredential(path, 'openai', `${KEY}-2`);
  assert.is(credentials.keyOf('openai'), `${KEY}-2`);
  assert.is(await removeCredential(path, 'openai'), true);
  assert.is(await removeCredential(path, 'openai'), false);
  assert.is(credentials.keyOf('openai'), null);
  assert.not.ok(readFileSync(path, 'utf8').includes(KEY));
});

test('concurrent changes lose no key', async ({ path }) => {
  const names = Array.from({ length: 8 }, (_, n) => `provider-${String(n)}`);
  await Promise.all(names.map((name) => saveCredential(path, name, `${KEY}-${name}`)));
  const credentials = new Credentials(path);
  for (const name of names) assert.is(credentials.keyOf(name), `${KEY}-${name}`);
});

test('a file that other users can read, or that is damaged, is refused and not changed', async ({ path }) => {
  await saveCredential(path, 'openai', KEY);
  if (process.platform !== 'win32') {
    const credentials = new Credentials(path);
    chmodSync(path, 0o640);
    const error = await rejection(() => credentials.keyOf('openai'), 'CONFIG_INVALID');
    assert.match(error.hint ?? '', `chmod 600 ${path}`);
    await rejection(() => saveCredential(path, 'groq', KEY), 'CONFIG_INVALID');
    chmodSync(path, 0o600);
    assert.is(credentials.keyOf('openai'), KEY);
  }
  const damaged = `{"version": 1, "credentials": {"openai": {"api_key": "${KEY}`;
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, damaged);
  for (const error of [
    await rejection(() => new Credentials(path).keyOf('openai'), 'CONFIG_INVALID'),
    await rejection(() => saveCredential(path, 'groq', KEY), 'CONFIG_INVALID'),
  ]) {
    assert.not.ok(`${error.message} ${error.hint ?? ''} ${String(error.cause)}`.includes(KEY));
  }
  assert.is(readFileSync(path, 'utf8'), damaged);
});

test('an invalid key is refused and not repeated in the error', async () => {
  assert.is(checkedKey(`  ${KEY}\r\n`), KEY);
  for (const typed of ['', ' \n', `${KEY} and more`, `${KEY}\n${KEY}`, 'schlüssel', 'x'.repeat(8193)]) {
    const error = await rejection(() => checkedKey(typed), 'INPUT_INVALID');
    assert.not.ok(error.message.includes(KEY));
  }
});

test.run();
