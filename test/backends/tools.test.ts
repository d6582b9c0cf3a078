/** Calls that must happen are valid against their schemas, whatever form a model's template has for them. */
import Ajv from 'ajv';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { toEngineRequest } from '../../src/backends/local/request.ts';
import type { Tool } from '../../src/protocol/generate.ts';
import { LIMITS } from '../../src/protocol/limits.ts';
import { CALLING_MODELS, openEngine, type TestEngine } from '../support/native-engine.ts';

const TASK = {
  type: 'object',
  properties: { title: { type: 'string' }, state: { enum: ['open', 'done'] }, weight: { type: 'number' } },
  required: ['title', 'state'],
};
const TOOLS: readonly Tool[] = [
  {
    name: 'weather',
    parameters: {
      type: 'object',
      properties: {
        city: { type: 'string' },
        unit: { type: 'string', enum: ['°C', 'K'] },
        days: { type: 'integer', minimum: 1, maximum: 14 },
        note: { type: ['string', 'null'] },
      },
      required: ['city', 'unit'],
    },
  },
  {
    name: 'book_room',
    parameters: {
      type: 'object',
      properties: {
        room: { type: 'string', pattern: '^[A-F][0-9]{3}$' },
        day: { type: 'string', format: 'date' },
        guests: { type: 'array', items: { type: 'string', minLength: 1, maxLength: 8 }, maxItems: 3 },
        quiet: { type: 'boolean' },
        by: { anyOf: [{ type: 'null' }, { const: 'train' }, { const: 'car' }] },
      },
      required: ['room', 'day', 'quiet'],
    },
  },
  {
    name: 'write_tasks',
    parameters: {
      type: 'object',
      properties: { tasks: { type: 'array', items: { $ref: '#/$defs/task' }, minItems: 1, maxItems: 2 } },
      required: ['tasks'],
      $defs: { task: TASK },
    },
  },
  { name: 'ping', parameters: { type: 'object', properties: {} } },
];
const CALLS_EACH = 24;

const ajv = new Ajv({ unknownFormats: 'ignore', format: 'full' });
const validators = new Map(TOOLS.map(({ name, parameters }) => [name, ajv.compile(parameters)]));

let nextId = 1;

/** The calls of one answer, the arguments as text; null: it was cut off. */
async function calls(engine: TestEngine, tools: readonly Tool[], seed: number) {
  const id = nextId++;
  const sampling = { temperature: 1.5, top_k: seed % 2 === 0 ? 0 : 40, top_p: 1, min_p: 0, seed };
  const request = toEngineRequest({
    messages: [{ role: 'user', content: 'Plan the day.' }],
    tools: [...tools],
    tool_choice: 'required',
    parallel_tool_calls: false,
    reasoning_effort: 'none',
    sampling,
    stop: [],
  });
  const { finish } = await engine.generate({ id, ...request, max_tokens: 160 });
  if (finish.reason === 'length') return null;
  const found: { name: string; arguments: string }[] = [];
  for (const output of engine.steps.flat().filter((each) => each.id === id))
    for (const part of output.tool_calls ?? []) {
      const call = (found[part.index] ??= { name: '', arguments: '' });
      call.name += part.name;
      call.arguments += part.arguments;
    }
  return found;
}

for (const model of CALLING_MODELS)
  test(`${model}: calls that must happen are valid`, async () => {
    const engine = await openEngine(model, { max_sequences: 8, context_length: 8192 });
    try {
      let whole = 0;
      for (const tool of TOOLS) {
        const seeds = Array.from({ length: CALLS_EACH / TOOLS.length }, (_, index) => index + 1);
        for (const answer of await Promise.all(seeds.map((seed) => calls(engine, [tool], seed)))) {
          if (answer === null) continue;
          whole += 1;
          assert.is(answer.length, 1);
          const [call] = answer;
          const validate = validators.get(call?.name ?? '');
          assert.ok(validate !== undefined && call !== undefined, call?.name);
          const isValid = validate(JSON.parse(call.arguments));
          assert.ok(isValid, `${call.name} ${call.arguments}\n${ajv.errorsText(validate.errors)}`);
        }
      }
      assert.ok(whole >= CALLS_EACH / 4, `${String(whole)} answers were complete`);
    } finally {
      await engine.native.close();
    }
  });

/** As agents send them: without `additionalProperties: false`, some with values that have no schema. */
function manyTools(count: number): Tool[] {
  const kinds: readonly Tool['parameters'][] = [
    { type: 'object', properties: {} },
    { type: 'object', properties: { body: { type: 'object' }, tags: { type: 'array' } }, required: ['body'] },
    {
      type: 'object',
      properties: {
        path: { type: 'string' },
        mode: { type: 'string', enum: ['read', 'write'] },
        limit: { type: 'integer' },
        value: {},
      },
      required: ['path'],
    },
  ];
  const of = (index: number): Tool['parameters'] => kinds[index % kinds.length] ?? {};
  return Array.from({ length: count }, (_, index) => ({ name: `tool_${String(index)}`, parameters: of(index) }));
}

for (const model of CALLING_MODELS)
  test(`${model}: 128 tools with free values can be offered, also beside an output format`, async () => {
    const engine = await openEngine(model, { context_length: 16_384 });
    const format = { type: 'json_schema', schema: { type: 'object', properties: { a: {} } } } as const;
    try {
      for (const more of [{}, { tool_choice: 'required' }, { format }] as const) {
        const request = toEngineRequest({
          messages: [{ role: 'user', content: 'Plan.' }],
          tools: manyTools(128),
          reasoning_effort: 'none',
          sampling: { temperature: 0 },
          stop: [],
          ...more,
        });
        const { finish } = await engine.generate({ id: nextId++, ...request, max_tokens: 1 });
        assert.is(finish.usage.output_tokens, 1);
      }
    } finally {
      await engine.native.close();
    }
  });

/** As large as they may be, and such that llama.cpp's own converter reads them, because svc cannot enforce them. */
const LARGEST: Readonly<Record<string, Tool['parameters']>> = {
  properties: Object.fromEntries(Array.from({ length: LIMITS.schemaMembers }, (_, i) => [`p${String(i)}`, {}])),
  name: { ['_'.repeat(LIMITS.schemaNameLength)]: { type: 'string' } },
  pattern: { a: { type: 'string', pattern: `${'('.repeat(500)}a${')'.repeat(500)}` } },
  optional: { a: { type: 'string', pattern: 'a?'.repeat(LIMITS.schemaPatternLength / 2) } },
  reference: { a: { $ref: `#/$defs/${'_'.repeat(1000)}` } },
  types: { a: { type: Array.from({ length: 16 }, () => 'string') } },
};

for (const model of [...CALLING_MODELS, 'tiny-qwen2'] as const)
  test(`${model}: no schema of a tool ends the engine`, async () => {
    const engine = await openEngine(model, { context_length: 16_384 });
    const $defs = { ['_'.repeat(1000)]: { type: 'string' } };
    try {
      for (const properties of Object.values(LARGEST)) {
        const request = toEngineRequest({
          messages: [{ role: 'user', content: 'Plan.' }],
          tools: [{ name: 'a', parameters: { type: 'object', properties, $defs, not: {} } }],
          reasoning_effort: 'none',
          sampling: { temperature: 0 },
          stop: [],
        });
        const { finish } = await engine.generate({ id: nextId++, ...request, max_tokens: 1 });
        assert.is(finish.usage.output_tokens, 1);
      }
    } finally {
      await engine.native.close();
    }
  });

test('a schema that a form of calls cannot enforce is refused where it must be', async () => {
  // In this form a string has no quotes: 7 may be both.
  const either: Tool = {
    name: 'set',
    parameters: { type: 'object', properties: { value: { type: ['string', 'integer'] } }, required: ['value'] },
  };
  const engine = await openEngine('tiny-thinker', { context_length: 2048 });
  try {
    await calls(engine, [either], 1);
    assert.unreachable();
  } catch (error) {
    assert.match(String(error), /cannot be enforced/);
  } finally {
    await engine.native.close();
  }
});

test.run();
