/** Random requests of the soak test: each is valid and has the same meaning over every interface. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { inWordsOfGrpc, inWordsOfOpenAi, randomQuestion } from '../../bench/soak/question.ts';
import { Definitions } from '../../src/grpc/definitions.ts';
import { fieldsOf } from '../../src/grpc/records.ts';
import { GenerateRequestSchema, type GenerateRequest } from '../../src/protocol/generate.ts';
import { parseChatCompletion } from '../../src/protocol/openai/chat-request.ts';
import { parse } from '../../src/protocol/validate.ts';

const questions = Array.from({ length: 500 }, randomQuestion);

test('a random question is a valid request', () => {
  for (const question of questions) assert.equal(parse(GenerateRequestSchema, question), question);
});

test('the OpenAI form is the same request', () => {
  for (const question of questions) {
    const { request } = parseChatCompletion(inWordsOfOpenAi(question));
    const { format, ...rest } = request;
    const { format: asked, ...others } = question;
    assert.equal(rest, others);
    assert.is(format?.type, asked?.type);
    if (asked?.type === 'json_schema' && format?.type === 'json_schema') assert.equal(format.schema, asked.schema);
  }
});

test('the gRPC form is the same request', () => {
  const definitions = new Definitions();
  const type = 'svc.v1.GenerateRequest';
  for (const question of questions) {
    const bytes = definitions.encode(type, inWordsOfGrpc(question));
    const told = fieldsOf(definitions, type, definitions.decode(type, bytes), false) as unknown as GenerateRequest;
    assert.equal(
      told.messages.map(({ role, content }) => ({ role, content })),
      question.messages,
    );
    assert.is(told.max_tokens, question.max_tokens);
    assert.is(told.priority, question.priority);
    assert.is(told.format?.type, question.format?.type);
    assert.is(told.sampling.temperature, question.sampling.temperature);
  }
});

test.run();
