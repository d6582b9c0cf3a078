/**
 * What the daemon does with a body takes time in proportion to the body's size. Otherwise one request, within all
 * limits, would block every other for seconds.
 */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { chatCompletionsBody } from '../../src/backends/cloud/wires/chat-completions/chat-completions-request.ts';
import { geminiBody } from '../../src/backends/cloud/wires/gemini/gemini-request.ts';
import { messagesBody } from '../../src/backends/cloud/wires/messages/messages-request.ts';
import { responsesBody } from '../../src/backends/cloud/wires/responses/responses-request.ts';
import { suited, toEngineRequest } from '../../src/backends/local/request.ts';
import type { EngineInfo } from '../../src/engine/addon.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import type { GenerateRequest } from '../../src/protocol/generate.ts';
import { cpuMs } from '../support/cpu-time.ts';
import { CHAT } from './large-bodies/chat-completions.ts';
import { ANTHROPIC } from './large-bodies/messages.ts';
import { OLLAMA } from './large-bodies/ollama.ts';
import { OTHERS } from './large-bodies/others.ts';
import { RESPONSES } from './large-bodies/responses.ts';

type Work<Input> = (input: Input) => unknown;

/** What a backend makes of a request before it sends it. */
const BACKENDS: Readonly<Record<string, Work<GenerateRequest>>> = {
  'a local model': toEngineRequest,
  'a model without eyes': (request) =>
    suited({ messages: [] }, request, { info: { sees: false, hears: false } as EngineInfo }),
  'chat completions': (request) => chatCompletionsBody(request, 'm', {}),
  responses: (request) => responsesBody(request, 'm', {}),
  messages: (request) => messagesBody(request, 'm', {}),
  gemini: (request) => geminiBody(request, 'gemini-3', {}),
};

/** How much smaller the small body is. The work on as many of them is compared with that on one large body. */
const TIMES = 8;
/** Highest accepted ratio of the times: linear work has 1, quadratic work 8. */
const MOST_RATIO = 3;
/** Shorter work cannot be measured reliably, and at the limits does no harm. */
const FLOOR_MS = 25;
const MEASUREMENTS = 7;

/**
 * CPU time in milliseconds. What is made is kept, so that the collector has as much to do with many small bodies as with
 * a large one. A refusal is work, too.
 */
async function timeOf<Input>(work: Work<Input>, inputs: readonly Input[]): Promise<number> {
  const made: unknown[] = [];
  const from = cpuMs();
  for (const input of inputs) {
    try {
      made.push(await work(input));
    } catch (error) {
      assert.instance(error, SvcError);
    }
  }
  return cpuMs() - from;
}

/** `made` or the message of the refusal, without indices and sizes. */
async function endOf<Input>(work: Work<Input>, input: Input): Promise<string> {
  try {
    await work(input);
    return 'made';
  } catch (error) {
    assert.instance(error, SvcError);
    return (error as SvcError).message.replaceAll(/\d+/g, 'N');
  }
}

/** Time for `large` divided by that for as much in `small` ones; 0 if it is short. */
async function ratioOf<Input>(work: Work<Input>, small: Input, large: Input): Promise<number> {
  const many = Array.from({ length: TIMES }, () => small);
  let [apart, whole] = [Infinity, Infinity];
  // The collector's and the compiler's threads count as well, so single measurements are too high.
  for (let time = 0; time < MEASUREMENTS; time += 1) {
    apart = Math.min(apart, await timeOf(work, many));
    whole = Math.min(whole, await timeOf(work, [large]));
    if (whole < FLOOR_MS || (time > 0 && whole < MOST_RATIO * apart)) break;
  }
  return whole < FLOOR_MS ? 0 : whole / apart;
}

const isRequest = (read: unknown): read is GenerateRequest =>
  typeof read === 'object' && read !== null && 'messages' in read;

for (const { name, most, make, read } of [...CHAT, ...RESPONSES, ...ANTHROPIC, ...OLLAMA, ...OTHERS]) {
  test(`${name}: the time is linear`, async () => {
    const [small, large] = [make(Math.floor(most / TIMES)), make(most)];
    const slow: string[] = [];
    const measure = async <Input>(what: string, work: Work<Input>, inputs: readonly [Input, Input]): Promise<void> => {
      // A refusal of one of them only would be compared with work.
      const [few, many] = inputs;
      assert.is(await endOf(work, few), await endOf(work, many), what);
      const ratio = await ratioOf(work, few, many);
      if (ratio > MOST_RATIO)
        slow.push(`${what} takes ${ratio.toFixed(1)} times as long in one body as in ${String(TIMES)}`);
    };
    await measure('reading it', read, [small, large]);
    const requests = [await read(small), await read(large)];
    if (requests.every(isRequest)) {
      const [few, many] = requests as [GenerateRequest, GenerateRequest];
      for (const [what, work] of Object.entries(BACKENDS)) await measure(what, work, [few, many]);
    }
    assert.equal(slow, []);
  });
}

test('quadratic work is found', async () => {
  const ids = (size: number): string[] => Array.from({ length: size }, (_, index) => String(index));
  const find = (all: readonly string[]): unknown => all.map((id) => all.indexOf(id));
  assert.ok((await ratioOf(find, ids(1000), ids(8000))) > MOST_RATIO);
});

test.run();
