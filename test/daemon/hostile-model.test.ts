/** Hostile model files given to a running daemon: it starts no engine for them. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as assert from 'uvu/assert';
import { HOSTILE } from '../models/hostile-files.ts';
import { daemonSuite, startIn } from '../support/daemon-suite.ts';
import { rejection } from '../support/errors.ts';

const NAMED = [
  '2^63-1 tensors',
  'a product of 2^64',
  'scores stored as bytes',
  'a template in deep parentheses',
  '0 layers',
];
const GOOD = fileURLToPath(new URL('../../build/models/tiny-llama.gguf', import.meta.url));

const test = daemonSuite('hostile model');

test('the daemon refuses the file itself, without an engine, and keeps working', async (context) => {
  const daemon = await startIn(context).settled();
  const generate = async (path: string): Promise<void> => {
    const messages = [{ role: 'user' as const, content: 'Hello' }];
    const request = { model: `file:${path}`, messages, max_tokens: 1, sampling: {}, stop: [] };
    for await (const _ of daemon.client.generate(request));
  };
  const started = (path: string): number =>
    daemon.log.filter(({ msg, ...fields }) => msg === 'engine started' && JSON.stringify(fields).includes(path)).length;

  for (const name of NAMED) {
    const [, bytes, says] = HOSTILE.find(([what]) => what === name)!;
    const path = join(context.home.dir, 'hostile.gguf');
    await writeFile(path, bytes);
    await rejection(() => generate(path), 'MODEL_INVALID', says);
    assert.is(started(path), 0, name);
  }
  // The daemon still answers with a good model.
  await generate(GOOD);
  assert.is(started(GOOD), 1);
});

test.run();
