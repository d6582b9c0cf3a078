/**
 * A minimal HTTP server for streamed chats with node-llama-cpp, as its users would write it: one sequence per request,
 * with the library's own batching.
 *
 *   node --import tsx bench/peers/servers/node-llama-cpp-server.ts '{"port", "model", "threads", "sequences", "contextSize"}'
 *
 * It reads `messages` and `max_tokens` and decodes greedily. The repeat penalty is off, as with the other servers. A
 * sequence serves one request after the other and keeps its KV cache, so that a prompt that continues the previous one
 * is not computed again.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { getLlama, LlamaChat, LlamaLogLevel, resolveChatWrapper, type ChatHistoryItem } from 'node-llama-cpp';
import type { Message } from '../ask.ts';

interface Settings {
  readonly port: number;
  readonly model: string;
  readonly threads: number;
  readonly sequences: number;
  readonly contextSize: number;
}

type TextMessage = Message & { readonly content: string };

interface Body {
  readonly messages: readonly TextMessage[];
  readonly max_tokens: number;
}

const { port, model: modelPath, threads, sequences, contextSize } = JSON.parse(process.argv[2] ?? '') as Settings;
const llama = await getLlama({ gpu: false, build: 'never', maxThreads: threads, logLevel: LlamaLogLevel.error });
const model = await llama.loadModel({ modelPath });
const context = await model.createContext({ sequences, contextSize, threads });
// Resolved once, because "auto" takes a second or more for each chat.
const chatWrapper = resolveChatWrapper(model);
const idle = Array.from(
  { length: sequences },
  () => new LlamaChat({ contextSequence: context.getSequence(), chatWrapper }),
);
const waiting: ((chat: LlamaChat) => void)[] = [];

createServer((request, response) => {
  if (request.method === 'GET') response.end('{"status":"ok"}');
  else
    answer(request, response).catch((error: unknown) => {
      console.error(error);
      response.destroy();
    });
}).listen(port, '127.0.0.1');

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  let text = '';
  request.setEncoding('utf8');
  for await (const part of request) text += part as string;
  const { messages, max_tokens: maxTokens } = JSON.parse(text) as Body;
  const chat = idle.pop() ?? (await new Promise<LlamaChat>((resolve) => waiting.push(resolve)));
  try {
    await generate(chat, messages, maxTokens, response);
  } finally {
    const next = waiting.shift();
    if (next === undefined) idle.push(chat);
    else next(chat);
  }
}

async function generate(
  chat: LlamaChat,
  messages: readonly TextMessage[],
  maxTokens: number,
  response: ServerResponse,
): Promise<void> {
  const before = chat.sequence.tokenMeter.getState();
  const send = (event: object): void =>
    void response.write(`data: ${JSON.stringify({ model: 'bench', ...event })}\n\n`);
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const { metadata } = await chat.generateResponse(messages.map(toHistory), {
    maxTokens,
    temperature: 0,
    repeatPenalty: false,
    onTextChunk: (content) => send({ choices: [{ index: 0, delta: { content } }] }),
  });
  const { usedInputTokens, usedOutputTokens } = chat.sequence.tokenMeter.diff(before);
  const finish_reason = metadata.stopReason === 'maxTokens' ? 'length' : 'stop';
  send({ choices: [{ index: 0, delta: {}, finish_reason }] });
  send({ choices: [], usage: { prompt_tokens: usedInputTokens, completion_tokens: usedOutputTokens } });
  response.end('data: [DONE]\n\n');
}

function toHistory({ role, content }: TextMessage): ChatHistoryItem {
  return role === 'assistant' ? { type: 'model', response: [content] } : { type: role, text: content };
}
