/** A hostile chat template fails its own requests; others, to the same engine, continue. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { modelWithTemplate } from '../support/template-model.ts';
import { collect, context, failure } from './conformance.ts';
import { ask } from './local-support.ts';
import { makeRealLocal } from './real-local.ts';

const GROWS = `{% set s = 'x' %}${'{% set s = s ~ s %}'.repeat(50)}`;
const TEMPLATES = {
  careful: `{% if messages[0].content == 'grow' %}${GROWS}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}`,
  greedy: GROWS,
};

test('templates that need memory without bound', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'svc-template-'));
  const models: Record<string, string> = {};
  for (const [name, template] of Object.entries(TEMPLATES)) {
    models[name] = join(dir, `${name}.gguf`);
    await writeFile(models[name], await modelWithTemplate(template));
  }
  const { backend, log, dispose } = makeRealLocal({}, models);
  try {
    const other = backend.generate(ask('Hello', 'careful'), context())[Symbol.asyncIterator]();
    await other.next();
    const errors = await Promise.all(
      Array.from({ length: 4 }, () => failure(collect(backend.generate(ask('grow', 'careful'), context())))),
    );
    for (const error of errors) {
      assert.is(error.code, 'INVALID_REQUEST');
      assert.match(error.message, /chat template needs too much memory for this chat/);
    }
    assert.is((await other.next()).done, false);
    assert.not.ok(log.some(({ message }) => message === 'engine ended'));
    await other.return();

    const refused = await failure(collect(backend.generate(ask('Hello', 'greedy'), context())));
    assert.is(refused.code, 'MODEL_INVALID');
    assert.match(refused.message, /chat template does not end on a short chat/);
  } finally {
    await dispose();
    await rm(dir, { recursive: true });
  }
});

test.run();
