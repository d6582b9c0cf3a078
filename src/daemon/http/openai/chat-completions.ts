/** `POST /v1/chat/completions` in OpenAI's format. */
import { refuseFile } from '../../../protocol/generate.ts';
import { parseChatCompletion } from '../../../protocol/openai/chat-request.ts';
import { chatContents, toChatContent } from '../../../protocol/openai/chat-response.ts';
import { ignoredField } from '../../../protocol/openai/tools.ts';
import { readJson } from '../body.ts';
import type { Exchange } from '../exchange.ts';
import { answerAll } from './choices.ts';

export async function chatCompletions(exchange: Exchange): Promise<void> {
  const call = parseChatCompletion(await readJson(exchange));
  refuseFile(call.request);
  await answerAll(exchange, [call.request], call, {
    idPrefix: 'chatcmpl',
    whole: 'chat.completion',
    chunk: 'chat.completion.chunk',
    contentOf: toChatContent,
    contentsOf: chatContents,
    further: ignoredField(call.ignoredTools),
  });
}
