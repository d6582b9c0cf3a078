/** Chat templates of the maximum accepted depth: libllama parses, runs and frees them without a crash. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parseGgufHeader } from '../../src/models/gguf/gguf-header.ts';
import { GGUF_LIMITS } from '../../src/models/gguf/gguf-limits.ts';
import { templateDepth } from '../../src/models/gguf/template-depth.ts';
import { openAddon } from '../support/native-engine.ts';
import { modelWithTemplate } from '../support/template-model.ts';

const DEPTH = GGUF_LIMITS.templateDepth;

const templates: Readonly<Record<string, string>> = {
  parentheses: `{{ ${'('.repeat(DEPTH)}1${')'.repeat(DEPTH)} }}`,
  dictionaries: `{{ ${'{"a":'.repeat(DEPTH)}1${'}'.repeat(DEPTH)} }}`,
  calls: `{% macro m(a) %}x{% endmacro %}{{ ${'m('.repeat(DEPTH)}1${')'.repeat(DEPTH)} }}`,
  loops: `${'{% for a in [1] %}'.repeat(DEPTH - 1)}x${'{% endfor %}'.repeat(DEPTH - 1)}`,
  'one elif after the other': `{% if false %}${'{% elif false %}'.repeat(DEPTH - 1)}{% endif %}x`,
  'a long sum': `{{ 1${' + 1'.repeat(DEPTH)} }}`,
};

for (const [what, template] of Object.entries(templates)) {
  test(`${what}, at the maximum depth`, async () => {
    assert.is(templateDepth(template), DEPTH);
    const dir = await mkdtemp(join(tmpdir(), 'svc-deep-'));
    try {
      const path = join(dir, 'deep.gguf');
      const bytes = await modelWithTemplate(template);
      parseGgufHeader(bytes, bytes.length, 'the file');
      await writeFile(path, bytes);
      const ignore = (): void => undefined;
      const engine = await openAddon().load(path, { context_length: 256, threads: 1 }, ignore, ignore);
      const { prompt } = await engine.render({ id: 1, messages: [{ role: 'user', content: 'Hello' }] });
      assert.ok(prompt.length > 0);
      await engine.close();
    } finally {
      await rm(dir, { recursive: true });
    }
  });
}

test.run();
