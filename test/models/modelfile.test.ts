/** Ollama's Modelfile: what is honoured, what is refused with its line, and the table in docs/models.md. */
import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { INSTRUCTIONS, parseModelfile, toModelfile } from '../../src/models/modelfile/modelfile.ts';
import { PARAMETERS } from '../../src/models/modelfile/parameters.ts';
import { SvcError } from '../../src/protocol/errors.ts';

const parse = (text: string) => parseModelfile(text, 'Modelfile');
function refusal(text: string): SvcError {
  try {
    parse(text);
  } catch (error) {
    assert.instance(error, SvcError);
    assert.is((error as SvcError).code, 'INPUT_INVALID');
    return error as SvcError;
  }
  throw new Error(`it was not refused: ${text}`);
}

test('the example of the documentation of Ollama', () => {
  const { settings, skipped } = parse(`# a comment
FROM llama3.2
# sets the temperature to 1 [higher is more creative, lower is more coherent]
parameter temperature 1
PARAMETER num_ctx 4096
  Parameter stop "<|im end|>"
PARAMETER stop AI assistant:
PARAMETER seed -1
PARAMETER num_keep 24
LICENSE """
long
text
"""
system """
You are Mario from Super Mario Bros.
  Be "brief"; # is no comment here.
"""
`);
  assert.equal(settings, {
    from: 'llama3.2',
    sampling: { temperature: 1 },
    context_length: 4096,
    stop: ['<|im end|>', 'AI assistant:'],
    system: 'You are Mario from Super Mario Bros.\n  Be "brief"; # is no comment here.',
  });
  assert.equal(skipped, [
    'line 9: PARAMETER num_keep: svc never drops the middle of a prompt',
    'line 10: LICENSE: the licence is read from the model file',
  ]);
});

test('every parameter that is set has a value in the settings', () => {
  for (const [name, rule] of Object.entries(PARAMETERS)) {
    if (rule.kind !== 'set') continue;
    const { settings } = parse(`FROM x\nPARAMETER ${name.toUpperCase()} ${name === 'num_ctx' ? '128' : '1'}`);
    const [section = '', key] = rule.setting.split('.');
    const found = (settings as unknown as Record<string, any>)[section];
    assert.ok((key === undefined ? found : found?.[key]) !== undefined, name);
  }
  assert.is(parse('FROM x\nPARAMETER repeat_last_n -1').settings.sampling?.repeat_last_n, 65_536);
  assert.equal(parse('FROM x\nPARAMETER num_predict -1\nPARAMETER num_gpu -1').settings, { from: 'x' });
});

test('what svc cannot honour is refused with its line', () => {
  for (const [text, message] of [
    ['FROM x\n\nFORM y', /^Modelfile:3: unknown instruction FORM$/],
    ['FROM x\nPARAMETER temprature 1', /^Modelfile:2: unknown parameter temprature$/],
    ['FROM x\nPARAMETER temperature hot', /^Modelfile:2: PARAMETER temperature must be a number$/],
    ['FROM x\nPARAMETER top_p 2', /^Modelfile:2: PARAMETER top_p must be at most 1$/],
    ['FROM x\nPARAMETER top_k 1.5', /^Modelfile:2: PARAMETER top_k must be a whole number$/],
    ['FROM x\nPARAMETER num_ctx 8', /^Modelfile:2: PARAMETER num_ctx must be at least 64$/],
    ['FROM x\nPARAMETER tfs_z 0.5', /^Modelfile:2: PARAMETER tfs_z is not supported: /],
    ['FROM x\nPARAMETER __proto__ 1', /unknown parameter __proto__/],
    ['FROM x\nconstructor', /unknown instruction CONSTRUCTOR/],
    ['FROM x\ntemplate """{{ .Prompt }}\n"""', /^Modelfile:2: TEMPLATE is not supported: /],
    ['FROM x\nMESSAGE user Hello', /^Modelfile:2: MESSAGE is not supported: /],
    ['FROM x\nSYSTEM """\nabc', /^Modelfile:2: SYSTEM has no closing """$/],
    ['FROM x\nSYSTEM """\nabc""" def', /^Modelfile:3: nothing may follow/],
    ['FROM x\nFROM y', /^Modelfile:2: FROM is there twice$/],
    ['FROM x\nSYSTEM', /^Modelfile:2: SYSTEM needs a value$/],
    ['PARAMETER top_k 1', /^Modelfile has no FROM$/],
  ] as const) {
    assert.match(refusal(text).message, message);
  }
  assert.match(refusal('FORM y').hint ?? '', /did you mean FROM/);
  assert.match(refusal('FROM x\nPARAMETER temprature 1').hint ?? '', /did you mean temperature/);
});

test('settings are written as a Modelfile that reads back as the same', () => {
  const settings = {
    system: 'Two\nlines',
    sampling: { temperature: 0.5, top_k: 3 },
    stop: ['a b', 'c'],
    context_length: 4096,
    max_tokens: 7,
  };
  const text = toModelfile('qwen', settings);
  assert.equal(parse(text).settings, { from: 'qwen', ...settings });
  assert.match(toModelfile('qwen', { reasoning: 'low' }), /^# reasoning has no form in a Modelfile$/m);
});

test('adapters are files beside the settings, and are written back at their full strength only', () => {
  const { settings, adapters } = parse('FROM x\nADAPTER ./a b.gguf\nadapter "/c.gguf"');
  assert.equal([settings, adapters], [{ from: 'x' }, ['./a b.gguf', '/c.gguf']]);
  assert.match(refusal('FROM x\nADAPTER').message, /^Modelfile:2: ADAPTER needs a value$/);
  const known = [{ id: 'legal', path: '/store/1', size_bytes: 1 }];
  const of = (scale: number): string => toModelfile('x', { lora: [{ id: 'legal', scale }] }, known);
  assert.is(of(1), 'FROM x\nADAPTER /store/1');
  assert.is(of(0.5), 'FROM x\n# lora has no form in a Modelfile');
  assert.is(toModelfile('x', { lora: [{ id: 'gone', scale: 1 }] }, known), 'FROM x\n# lora has no form in a Modelfile');
});

test('docs/models.md has every instruction and parameter', () => {
  const rows = readFileSync(new URL('../../docs/models.md', import.meta.url), 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.replaceAll('`', '').trim()),
    );
  const expected = [
    ...Object.entries(INSTRUCTIONS).map(([name, { kind, why }]) => [name, kind, why]),
    ...Object.entries(PARAMETERS).map(([name, rule]) => [
      name,
      rule.kind,
      rule.kind === 'set' ? rule.setting : rule.why,
    ]),
  ];
  const kinds = ['set', 'skipped', 'refused', 'parameter', 'adapter'];
  assert.equal(
    rows.filter(([, kind]) => kinds.includes(kind ?? '')),
    expected,
  );
});

test.run();
