/** null in the objects of a request means absent, as it does in the request itself. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/protocol/errors.ts';
import { parseInfill } from '../../src/protocol/llama-server/infill.ts';
import { parseChatCompletion } from '../../src/protocol/openai/chat-request.ts';
import { parseCompletion } from '../../src/protocol/openai/completions.ts';

const MESSAGES = [{ role: 'user', content: 'hi' }];
const chat = (fields: object) => parseChatCompletion({ messages: MESSAGES, ...fields });

test('in chat completions', () => {
  const unset = { name: 'f', description: null, parameters: null };
  const tools = (tool: object) => chat({ tools: [{ type: 'function', function: tool }] });
  assert.equal(tools(unset), tools({ name: 'f' }));
  assert.equal(chat({ stream_options: { include_usage: null } }), chat({}));
  const schema = { type: 'object', properties: { a: { default: null, enum: [null] } } };
  const format = (json_schema: object) => chat({ response_format: { type: 'json_schema', json_schema } });
  assert.equal(format({ schema, name: null, strict: null, description: null }), format({ schema }));
  const json = { type: 'json_object', schema: null, json_schema: null };
  assert.equal(chat({ response_format: json }), chat({ response_format: { type: 'json_object' } }));
});

test('in a schema it is a value', () => {
  const parameters = { type: 'object', default: null, properties: { a: { const: null } } };
  const { request } = chat({ tools: [{ type: 'function', function: { name: 'f', parameters } }] });
  assert.equal(request.tools?.[0]?.parameters, parameters);
  const response_format = { type: 'json_schema', json_schema: { schema: parameters } };
  assert.equal(chat({ response_format }).request.format, { type: 'json_schema', schema: parameters });
});

test('in completions and infills', () => {
  const plain = parseCompletion({ prompt: 'a' });
  assert.equal(parseCompletion({ prompt: 'a', stream_options: { include_usage: null } }), plain);
  const gap = (file: object) => parseInfill({ input_prefix: 'a', input_suffix: 'b', input_extra: [file] });
  assert.equal(gap({ filename: null, text: 'c' }), gap({ text: 'c' }));
});

test('what is needed may not be null', () => {
  const wrong: readonly (readonly [param: string, fields: object])[] = [
    ['tools[0].function.name', { tools: [{ type: 'function', function: { name: null } }] }],
    ['tools[0].function', { tools: [{ type: 'function', function: null }] }],
    ['response_format.type', { response_format: { type: null } }],
    ['response_format.json_schema.schema', { response_format: { type: 'json_schema', json_schema: { schema: null } } }],
  ];
  for (const [param, fields] of wrong) {
    try {
      chat(fields);
      assert.unreachable(param);
    } catch (error) {
      assert.instance(error, SvcError, param);
      assert.is((error as SvcError).param, param);
    }
  }
});

test.run();
