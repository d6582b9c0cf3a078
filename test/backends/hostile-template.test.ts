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
const OWN = '{% set a = [] %}{% set _ = a.append(a) %}';
const DEEP = `{% set ns = namespace(a=1) %}{% for i in range(5000) %}{% set ns.a = ${'['.repeat(40)}ns.a${']'.repeat(40)} %}{% endfor %}`;
const VALUES = {
  upper: `${OWN}{{ a|upper }}`,
  format: `${OWN}{{ '{}'.format(a) }}`,
  method: '{% set a = [] %}{% set _ = a.append(a.append) %}{{ a|string }}',
  deep: `${DEEP}{{ ns.a|trim }}`,
};
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
    assert.match(refused.message, /even for a short chat/);
  } finally {
    await dispose();
    await rm(dir, { recursive: true });
  }
});

test('templates that follow values that contain themselves, or are nested very deep', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'svc-template-'));
  const path = join(dir, 'values.gguf');
  const cases = Object.entries(VALUES).map(
    ([name, text]) => `{% if messages[0].content == '${name}' %}${text}{% endif %}`,
  );
  await writeFile(path, await modelWithTemplate(`${cases.join('')}{% for m in messages %}{{ m.content }}{% endfor %}`));
  const { backend, log, dispose } = makeRealLocal({}, { values: path });
  try {
    for (const name of Object.keys(VALUES)) {
      const error = await failure(collect(backend.generate(ask(name, 'values'), context())));
      assert.is(error.code, 'INVALID_REQUEST', name);
      assert.match(error.message, /follows values that contain themselves/, name);
    }
    assert.is(
      (await collect(backend.generate({ ...ask('Hello', 'values'), max_tokens: 4 }, context()))).at(-1)?.type,
      'finish',
    );
    assert.not.ok(log.some(({ message }) => message === 'engine ended'));
  } finally {
    await dispose();
    await rm(dir, { recursive: true });
  }
});

test.run();
