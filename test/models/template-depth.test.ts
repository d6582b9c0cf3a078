/** Nesting depth of chat templates: real ones, and each construct that makes libllama's parser recurse. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { llamaSource } from '../../scripts/llama-source.js';
import { GGUF_LIMITS } from '../../src/models/gguf/gguf-limits.ts';
import { templateDepth } from '../../src/models/gguf/template-depth.ts';
import { cpuMs } from '../support/cpu-time.ts';

const depths: readonly [template: string, depth: number][] = [
  ['', 0],
  ['plain ( [ { text', 0],
  ['{{ a }} {{ b }}', 0],
  ['{{ (a) }}', 1],
  ['{{ ((a)) }}', 2],
  ['{{ [a, [b], [c]] }}', 2],
  ['{{ {"a": {"b": 1}} }} {{ (c) }}', 2],
  ['{{- {"}}": "{{ ((( "} -}}', 1],
  ["{{ 'it\\'s ((((' }}", 0],
  ['{# (((( {{ #}{{ (a) }}', 1],
  ['{{ f(1)(2)(3) }}', 3],
  ['{{ a.b.c[0] }}', 3],
  ['{{ a + b + c, d + e }}', 2],
  ['{{ a <= b }}', 1],
  ['{{ a if b else c if d else e }}', 4],
  ['{{ not not a }}', 2],
  ['{% if a %}{% if b %}{% endif %}{% endif %}{% if c %}{% endif %}', 2],
  ['{% if a %}{% elif b %}{% elif c %}{% else %}{{ (d) }}{% endif %}{{ e }}', 4],
  ['{%- for a in b -%}{{ a }}{%- endfor -%}', 1],
  ['{% set a = 1 %}{% set b = 2 %}{% set c = f(d=1) %}', 3],
  ['{% set a %}{% set b %}{% endset %}{% endset %}', 2],
  ['{% macro m(a) %}{% endmacro %}{% call m(1) %}{% endcall %}{% filter upper %}{% endfilter %}', 1],
  ['{% generation %}{% if a %}{% endgeneration %}{% if b %}', 2],
  ['{{ a', 0],
  ['{# never ended', 0],
];

for (const [template, depth] of depths) {
  test(`${JSON.stringify(template)} nests ${depth} deep`, () => {
    assert.is(templateDepth(template), depth);
  });
}

test('real templates are far below the limit', async () => {
  const folder = join(await llamaSource(), 'models', 'templates');
  const names = (await readdir(folder)).filter((name) => name.endsWith('.jinja'));
  assert.ok(names.length > 20);
  for (const name of names) {
    const template = await readFile(join(folder, name), 'utf8');
    const depth = templateDepth(template);
    assert.ok(depth <= GGUF_LIMITS.templateDepth / 3, `${name}: ${depth}`);
    assert.ok(template.length <= GGUF_LIMITS.templateBytes / 8, `${name}: ${template.length} bytes`);
  }
});

test('measuring the largest accepted template is fast', () => {
  for (const piece of ['{', '{{', '{%', '{#', '{{(', '"', "{{ '", '{% if', ' ', '{{ a.', '}}', '\\']) {
    const template = piece.repeat(GGUF_LIMITS.templateBytes / piece.length);
    const before = cpuMs();
    templateDepth(template);
    assert.ok(cpuMs() - before < 1000, JSON.stringify(piece));
  }
});

test.run();
