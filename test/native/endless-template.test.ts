/** A chat template that never ends fails its own request, not the engine. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import type { NativeEngine, NativeOutput } from '../../src/engine/addon.ts';
import { rejection } from '../support/errors.ts';
import { openAddon } from '../support/native-engine.ts';
import { modelWithTemplate } from '../support/template-model.ts';

/** Templates that are harmless until a message says "spin". */
const templates: Readonly<Record<string, string>> = {
  'nested loops': inCaseOf('{% for i in range(100000) %}{% for j in range(1000) %}{% endfor %}{% endfor %}'),
  'a macro that calls itself': `{% macro f(n) %}{{ f(n) }}{% endmacro %}${inCaseOf('{{ f(1) }}')}`,
};

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
    for (const template of Object.values(templates)) {
      const path = join(dir, `${String(lastId)}.gguf`);
      await writeFile(path, await modelWithTemplate(template));
      const engine = await addon.load(path, { context_length: 256, threads: 1 }, () => undefined, onStep).done;
      await finished(await submit(engine, 'hello'));
      await rejection(() => submit(engine, 'spin'), 'INVALID_REQUEST', /does not end on this chat, or takes too long/);
      await finished(await submit(engine, 'hello'));
      await engine.close();
    }
  } finally {
    await rm(dir, { recursive: true });
  }
});

test.run();
