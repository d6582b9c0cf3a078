/** A chat template that never ends, or that needs memory without bound, fails its own request, not the engine. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import type { NativeEngine, NativeOutput } from '../../src/engine/addon.ts';
import { rejection } from '../support/errors.ts';
import { openAddon } from '../support/native-engine.ts';
import { modelWithTemplate } from '../support/template-model.ts';

const LOOPS = '{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}';
const TOO_LONG = /takes too long for this chat, or never ends/;
const TOO_LARGE = /needs too much memory for this chat/;

/** Templates that are harmless until a message says "spin". */
const templates: readonly (readonly [string, RegExp])[] = [
  [inCaseOf(LOOPS), TOO_LONG],
  [`{% macro f(n) %}{{ f(n) }}{% endmacro %}${inCaseOf('{{ f(1) }}')}`, TOO_LONG],
  [inCaseOf('{{ range(1000000000000) }}'), TOO_LARGE],
  [inCaseOf("{{ 'x' * 1000000000000 }}"), TOO_LARGE],
  [inCaseOf(`{% set s = 'x' %}${'{% set s = s ~ s %}'.repeat(40)}`), TOO_LARGE],
];

function inCaseOf(spinning: string): string {
  return `{% if messages[0].content == 'spin' %}${spinning}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}`;
}

const outputs: NativeOutput[] = [];
let wake = (): void => undefined;
let lastId = 0;

async function submit(engine: NativeEngine, content: string): Promise<number> {
  const id = ++lastId;
  await engine.submit({ id, messages: [{ role: 'user', content }], max_tokens: 1, sampling: { temperature: 0 } });
  return id;
}

async function finished(id: number): Promise<void> {
  while (!outputs.some((output) => output.id === id && output.finish !== undefined)) {
    await new Promise<void>((resolve) => (wake = resolve));
  }
}

test('an endless template is aborted, and the engine keeps working', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'svc-endless-'));
  const addon = openAddon();
  const onStep = (step: readonly NativeOutput[]): void => {
    outputs.push(...step);
    wake();
  };
  try {
    for (const [template, reason] of templates) {
      const path = join(dir, `${String(lastId)}.gguf`);
      await writeFile(path, await modelWithTemplate(template));
      const engine = await addon.load(path, { context_length: 256, threads: 1 }, () => undefined, onStep);
      await finished(await submit(engine, 'hello'));
      await rejection(() => submit(engine, 'spin'), 'INVALID_REQUEST', reason);
      await finished(await submit(engine, 'hello'));
      await engine.close();
    }
  } finally {
    await rm(dir, { recursive: true });
  }
});

test('a template that never ends on any chat is refused at load', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'svc-endless-'));
  const addon = openAddon();
  const load = (path: string): Promise<NativeEngine> =>
    addon.load(
      path,
      { context_length: 256, threads: 1 },
      () => undefined,
      () => undefined,
    );
  try {
    for (const template of [LOOPS, '{{ range(1000000000000) }}']) {
      const path = join(dir, 'hostile.gguf');
      await writeFile(path, await modelWithTemplate(template));
      await rejection(() => load(path), 'MODEL_INVALID', /even for a short chat/);
    }
    // What only a request with tools meets is found by trying, and the model is loaded without tools.
    const path = join(dir, 'tools.gguf');
    await writeFile(path, await modelWithTemplate(`{% if 'moon' in (tools|tojson) %}${LOOPS}{% endif %}`));
    const engine = await load(path);
    await engine.close();
  } finally {
    await rm(dir, { recursive: true });
  }
});

test.run();
