/**
 * A local model that reasons, over HTTP: the reasoning apart from the answer, its limits, and a template's variables.
 */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type OpenAI from 'openai';
import { endServing, serve } from '../support/serving.ts';
import type { DaemonProcess } from '../support/daemon.ts';
import type { Home } from '../support/home.ts';
import { failure } from './api-failure.ts';

/** What svc adds to OpenAI's message. */
interface Reasoned {
  readonly content?: string | null;
  readonly reasoning_content?: string;
}
type Given = Partial<OpenAI.ChatCompletionCreateParamsNonStreaming> & Record<string, unknown>;

let home: Home;
let daemon: DaemonProcess;
let client: OpenAI;

const QUESTION = { role: 'user', content: 'How many?' } as const;
const ask = (given: Given): OpenAI.ChatCompletionCreateParamsNonStreaming => ({
  model: 'thinker',
  messages: [QUESTION],
  max_completion_tokens: 40,
  ...given,
});

test.before(async () => {
  ({ home, daemon, client } = await serve({ thinker: 'tiny-thinker', plain: 'tiny-qwen2' }));
});
test.after(() => endServing({ home, daemon }));

async function whole(given: Given): Promise<{ reasoning: string; content: string; promptTokens: number }> {
  const { choices, usage } = await client.chat.completions.create(ask(given));
  const { content, reasoning_content } = choices[0]?.message as Reasoned;
  return { reasoning: reasoning_content ?? '', content: content ?? '', promptTokens: usage?.prompt_tokens ?? 0 };
}

async function streamed(given: Given): Promise<{ reasoning: string; content: string }> {
  let [reasoning, content] = ['', ''];
  for await (const chunk of await client.chat.completions.create({ ...ask(given), stream: true })) {
    const delta = (chunk.choices[0]?.delta ?? {}) as Reasoned;
    if (content !== '') assert.is(delta.reasoning_content, undefined, 'reasoning comes before the answer');
    reasoning += delta.reasoning_content ?? '';
    content += delta.content ?? '';
  }
  return { reasoning, content };
}

test('reasoning ends at its budget, and the answer follows, whole and streamed', async () => {
  for (const seed of [1, 2]) {
    const given = { reasoning_budget_tokens: 8, seed };
    const { reasoning, content } = await whole(given);
    assert.ok(reasoning.length > 0 && content.length > 0);
    assert.not.match(reasoning + content, /<\/?think>/);
    assert.equal(await streamed(given), { reasoning, content });
  }
});

test('the usage counts the tokens of the reasoning, in every API that has a place for them', async () => {
  const chat = await client.chat.completions.create(ask({ reasoning_budget_tokens: 8 }));
  const { completion_tokens, completion_tokens_details: details } = chat.usage ?? {};
  // Tokens of the tag that ends it may count.
  assert.ok([8, 9, 10].includes(details?.reasoning_tokens ?? 0), JSON.stringify(details));
  assert.is(completion_tokens, 40);
  const response = await client.responses.create({ model: 'thinker', input: 'How many?', max_output_tokens: 12 });
  assert.is(response.usage?.output_tokens_details.reasoning_tokens, 12);
  const plain = await client.chat.completions.create(ask({ model: 'plain' }));
  assert.is(plain.usage?.completion_tokens_details, undefined);
});

test('log probabilities are those of the answer, whose items they do not change', async () => {
  const given = { reasoning_budget_tokens: 8, seed: 1 };
  const { choices } = await client.chat.completions.create(ask({ ...given, logprobs: true }));
  const bytes = (choices[0]?.logprobs?.content ?? []).flatMap((each) => each.bytes ?? []);
  // The parser drops white space around the answer.
  assert.is(Buffer.from(bytes).toString().trim(), choices[0]?.message.content?.trim());
  const response = await client.responses.create({
    ...given,
    model: 'thinker',
    input: 'How many?',
    max_output_tokens: 30,
    include: ['message.output_text.logprobs'],
  } as OpenAI.Responses.ResponseCreateParamsNonStreaming);
  assert.equal(
    response.output.map(({ type }) => type),
    ['reasoning', 'message'],
  );
});

test('without a budget, or with a higher effort, random weights never stop reasoning', async () => {
  for (const given of [{}, { reasoning_effort: 'low' }, { reasoning_effort: 'xhigh' }] as const) {
    const { reasoning, content } = await whole(given);
    assert.ok(reasoning.length > 0);
    assert.is(content, '');
  }
});

test('reasoning is off by the effort, the budget, or a variable of the template', async () => {
  for (const given of [
    { reasoning_effort: 'none' },
    { reasoning_budget_tokens: 0 },
    { chat_template_kwargs: { enable_thinking: false } },
  ] as const) {
    const { reasoning, content } = await whole(given);
    assert.is(reasoning, '', JSON.stringify(given));
    assert.ok(content.length > 0, JSON.stringify(given));
    assert.is((await streamed(given)).reasoning, '');
  }
  const { param } = await failure(client.chat.completions.create(ask({ chat_template_kwargs: 'x' })));
  assert.is(param, 'chat_template_kwargs');
});

test('a last message of the assistant is continued', async () => {
  const messages = [QUESTION, { role: 'assistant', content: 'It rains' }] as const;
  const asked = await whole({ model: 'plain' });
  const continued = await whole({ model: 'plain', messages: [...messages] });
  // Two words, each a token; neither the turn's end nor another turn's beginning.
  assert.is(continued.promptTokens, asked.promptTokens + 2);
  assert.ok(continued.content.length > 0);
  assert.not.match(continued.content, /^It rains/);
});

test.run();
