/** `POST /v1/completions`, OpenAI's legacy API. All prompts of a request are answered at the same time. */
import { Collector } from '../../../protocol/collect.ts';
import { refuseFile, type AnswerEvent } from '../../../protocol/generate.ts';
import { given } from '../../../protocol/given.ts';
import { parseCompletion, type CompletionRequest } from '../../../protocol/openai/completions.ts';
import { LegacyLogprobsWriter } from '../../../protocol/openai/legacy-logprobs.ts';
import { readJson } from '../body.ts';
import { contextOf, type Exchange } from '../exchange.ts';
import { answerAll } from './choices.ts';

export async function completions(exchange: Exchange): Promise<void> {
  const call = parseCompletion(await readJson(exchange));
  for (const request of call.requests) refuseFile(request);
  const echoes = call.echo ? await Promise.all(call.requests.map((request) => textOf(exchange, request))) : [];
  const echoOf = (index: number): string => echoes[Math.floor(index / call.choices)] ?? '';
  const newWriter = (): LegacyLogprobsWriter => new LegacyLogprobsWriter(call.requests[0]?.logprobs ?? 0);
  await answerAll(exchange, call.requests, call, {
    idPrefix: 'cmpl',
    whole: 'text_completion',
    chunk: 'text_completion',
    contentOf: ({ text, logprobs }, index) => ({
      text: echoOf(index) + text,
      logprobs: newWriter().next(logprobs),
    }),
    contentsOf: (index) => textContents(echoOf(index), newWriter()),
    further: {},
  });
}

/** As `chatContents`. `echo`: sent with the first text. */
function textContents(echo: string, writer: LegacyLogprobsWriter): (event: AnswerEvent) => readonly object[] {
  let opening = echo;
  return (event) => {
    if (event.type === 'text') {
      const text = opening + event.text;
      opening = '';
      return [{ text, logprobs: writer.next(event.logprobs ?? []) }];
    }
    if (event.type !== 'finish') return [];
    const end = { text: '', logprobs: null };
    return opening === '' ? [end] : [{ ...end, text: opening }, end];
  };
}

/** The prompt as text. */
async function textOf(exchange: Exchange, { raw, ...request }: CompletionRequest): Promise<string> {
  if ('text' in raw) return raw.infill?.prefix ?? raw.text;
  const { model, route, context_length, keep_alive_seconds, timeout_ms } = request;
  const settings = given({ model, route, context_length, keep_alive_seconds, timeout_ms });
  const events = exchange.services.router.detokenize(
    { ...settings, tokens: [...raw.tokens], special: true },
    contextOf(exchange),
  );
  return (await Collector.of(events)).text;
}
