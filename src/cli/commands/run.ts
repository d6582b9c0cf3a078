/**
 * `svc run`: one prompt, one answer. The text is streamed to standard output; messages about it go to standard error.
 * Ctrl-C closes the connection, which stops the generation in the engine.
 */
import type { Client } from '../../client/client.ts';
import { ControlClient } from '../../client/control-client.ts';
import { resolvePaths } from '../../home/paths.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { ContentPart, GenerateRequest, GenerateResult, Message } from '../../protocol/generate.ts';
import { given } from '../../protocol/given.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { receive, requestOf, routeOf, isFull, sayRepeated, sayTruncated } from '../asking/answer.ts';
import { answerFlags, modelFlag, rawFlag, routingFlags, systemFlag, type Flags, type Run, type Spec } from '../spec.ts';
import { ensureServing } from '../machine/daemon.ts';
import type { FormatFile } from '../asking/format-file.ts';
import { introduceBuiltin } from '../asking/introduce.ts';
import { readMedia } from '../asking/media-files.ts';
import { offeringPull } from '../asking/offer-pull.ts';
import { exit, printJson, printJsonLine, say } from '../terminal/output.ts';
import { openWriter, type AnswerWriter } from '../asking/writer.ts';
import { hasInput, readInput, readPromptInput, type PromptInput } from '../asking/stdin.ts';

const INTERRUPTED = 130;
const NO_PROMPT: PromptInput = { text: '', late: undefined };

export const spec = {
  summary: 'Answer one prompt',
  detail: [
    'Reads standard input if it is a pipe or a file, or if the prompt is `-`. With a prompt, the input is appended to it after a blank line; a pipe that stays silent is then ignored, unless `-` follows the prompt.',
    'Starts the daemon if none is running. Ctrl-C stops the generation in the engine.',
  ],
  arguments: [
    { name: 'prompt', required: false },
    { name: '-', required: false },
  ],
  flags: {
    model: modelFlag,
    system: systemFlag,
    json: { kind: 'switch', summary: 'print the whole answer as JSON, with route, usage and timings' },
    raw: rawFlag,
    'no-stream': { kind: 'switch', summary: 'print the answer only when it is complete' },
    ...answerFlags,
    schema: {
      kind: 'string',
      value: 'FILE',
      summary: 'constrain the answer to JSON that is valid against this JSON Schema',
      completes: 'file',
    },
    grammar: {
      kind: 'string',
      value: 'FILE',
      summary: 'constrain the answer to this grammar (GBNF)',
      completes: 'file',
    },
    tools: {
      kind: 'string',
      value: 'FILE',
      summary: 'offer the tools of this JSON file to the model; its calls are printed as JSON lines',
      completes: 'file',
    },
    'tool-choice': {
      kind: 'string',
      value: 'CHOICE',
      summary: 'auto (the default), none, required, or the name of the tool to call',
    },
    messages: {
      kind: 'string',
      value: 'FILE',
      summary: 'put the messages of this JSON file before the prompt, which is then not needed',
      completes: 'file',
    },
    timeout: { kind: 'duration', value: 'TIME', summary: 'give up after this time' },
    stats: { kind: 'switch', summary: 'print token counts and speed on standard error' },
    image: {
      kind: 'strings',
      value: 'FILE',
      summary: 'send a PNG, JPEG, GIF or WebP file to the model; may be given more than once',
      completes: 'file',
    },
    audio: {
      kind: 'strings',
      value: 'FILE',
      summary: 'send a WAV, MP3 or FLAC file to a local model that hears; may be given more than once',
      completes: 'file',
    },
    ...routingFlags,
  },
  examples: [
    'svc run "Why is the sky blue?"',
    'svc run -m ./model.gguf --temperature 0 "Count to ten"',
    'cat report.txt | svc run "Summarise this"',
    'slow-report | svc run "Summarise this" -',
    'svc run --json --seed 7 --max-tokens 64 "Hello"',
    'svc run --provider openai --image photo.jpg "What is this?"',
    'svc run -m qwen2.5-vl --image before.png --image after.png "What has changed?"',
    'svc run --schema person.schema.json "Invent a person"',
    'svc run --tools tools.json "What is the weather in Paris?"',
    'svc run --tools tools.json --messages chat.json',
    'svc run --think off "Seven times eight?"',
  ],
} as const satisfies Spec;

export const run: Run<typeof spec> = async (flags, { prompt: argument, '-': dash }) => {
  // Before reading standard input, which may take long.
  routeOf(flags);
  const media = await readMedia(flags.image, flags.audio);
  const before = await messagesFile(flags);
  const isComplete = before.length > 0 && argument === undefined;
  const { text: prompt, late } = isComplete ? NO_PROMPT : await readPrompt(argument, dash === '-');
  const file = await formatFile(flags);
  const request: GenerateRequest = {
    ...withPrompt(flags, before, prompt, media),
    ...given({ format: file?.format }),
    ...(await toolsOf(flags)),
  };
  const paths = resolvePaths();
  if (!flags['no-start']) await ensureServing(paths, flags.json);
  const client = new ControlClient(paths.socketPath);
  if (flags.provider !== undefined || flags.cloud) {
    // Imported only here: it loads the config and the catalogue.
    const { ensureKey } = await import('../asking/provider-key.ts');
    await ensureKey(client, paths, flags);
  }
  const live = !flags.json && !flags['no-stream'];
  // Constrained answers are data.
  const isRaw = flags.raw || file !== null;
  const ask = async (): Promise<GenerateResult> =>
    await answer(client, request, live ? await openWriter(isRaw) : undefined, late);
  const result = await offeringPull(flags.model, flags.json, ask).catch((error: unknown) => {
    throw file?.blame(error) ?? error;
  });
  if (flags.json) printJson(result);
  else if (flags['no-stream']) await printWhole(result.text, isRaw);
  if (!flags.json) for (const call of result.tool_calls ?? []) printJsonLine(call);
  sayRepeated(result);
  if (isFull(result) && flags['max-tokens'] === undefined) {
    say("the answer is cut off: the model's context, or the max_tokens of its settings, is full");
  }
  sayTruncated(result);
  if (flags.stats) say(statsOf(result));
  introduceBuiltin(result, paths);
};

/** Returns the argument, standard input, or both. A silent pipe is ignored only beside an argument without `-`. */
async function readPrompt(argument: string | undefined, isAwaited: boolean): Promise<PromptInput> {
  const typed = argument === '-' ? '' : (argument ?? '');
  const isNeeded = argument === '-' || isAwaited;
  const { text: input, late } =
    isNeeded || (hasInput() && typed.trim() === '')
      ? { text: await readInput(LIMITS.bodyBytes), late: undefined }
      : await readPromptInput(LIMITS.bodyBytes);
  const parts = [typed, input].filter((part) => part.trim() !== '');
  if (parts.length > 0) return { text: parts.join('\n\n'), late };
  throw new SvcError('INVALID_REQUEST', 'no prompt was given', {
    hint: 'give one: svc run "Why is the sky blue?", or pipe it in: svc run - < question.txt',
  });
}

/** Reads `--schema` or `--grammar`; its module is imported only if one is given. */
async function formatFile({ schema, grammar }: Flags<typeof spec>): Promise<FormatFile | null> {
  if (schema === undefined && grammar === undefined) return null;
  const { readFormat } = await import('../asking/format-file.ts');
  return readFormat(schema, grammar);
}

async function messagesFile({ messages }: Flags<typeof spec>): Promise<readonly Message[]> {
  return messages === undefined ? [] : (await import('../asking/messages-file.ts')).readMessages(messages);
}

async function toolsOf({
  tools,
  'tool-choice': choice,
}: Flags<typeof spec>): Promise<Pick<GenerateRequest, 'tools' | 'tool_choice'>> {
  if (tools === undefined && choice === undefined) return {};
  const { readTools, toolChoiceOf } = await import('../asking/tools-file.ts');
  return given({
    tools: tools === undefined ? undefined : readTools(tools),
    tool_choice: choice === undefined ? undefined : toolChoiceOf(choice),
  });
}

/** `prompt`: empty if the messages before it are the whole chat. */
function withPrompt(
  flags: Flags<typeof spec>,
  before: readonly Message[],
  prompt: string,
  media: readonly ContentPart[],
): GenerateRequest {
  const { system, model, timeout } = flags;
  const text: ContentPart[] = prompt === '' ? [] : [{ type: 'text', text: prompt }];
  const content = media.length === 0 ? prompt : [...media, ...text];
  const messages: Message[] = [
    ...(system === undefined ? [] : [{ role: 'system' as const, content: system }]),
    ...before,
    ...(content === '' ? [] : [{ role: 'user' as const, content }]),
  ];
  return { ...requestOf(flags, model, messages), ...given({ timeout_ms: timeout }) };
}

/** `late` aborts if data arrives on standard input after the answer was requested: the prompt was incomplete. */
async function answer(
  client: Client,
  request: GenerateRequest,
  writer: AnswerWriter | undefined,
  late: AbortSignal | undefined,
): Promise<GenerateResult> {
  const controller = new AbortController();
  const onInterrupt = (): void => {
    if (controller.signal.aborted) exit(INTERRUPTED);
    controller.abort();
  };
  process.on('SIGINT', onInterrupt);
  try {
    return await receive(client, request, {
      signal: late === undefined ? controller.signal : AbortSignal.any([controller.signal, late]),
      onText: (text) => writer?.onText(text),
      onReasoning: (text) => writer?.onReasoning(text),
    });
  } catch (error) {
    throw late?.aborted === true ? late.reason : error;
  } finally {
    process.off('SIGINT', onInterrupt);
    writer?.end();
  }
}

async function printWhole(text: string, raw: boolean): Promise<void> {
  const writer = await openWriter(raw);
  if (text !== '') writer.onText(text);
  writer.end();
}

function statsOf({ model, provider, usage, timings }: GenerateResult): string {
  const cached = usage === null || usage.cached_tokens === 0 ? '' : ` (${String(usage.cached_tokens)} cached)`;
  const first = timings.ttft_ms === null ? '' : `, first token after ${timings.ttft_ms.toFixed(0)} ms`;
  const speed = timings.tokens_per_second === null ? '' : `, ${timings.tokens_per_second.toFixed(1)} tokens/s`;
  return (
    `${model} (${provider}): ${String(usage?.input_tokens ?? '?')} tokens in${cached}, ${String(usage?.output_tokens ?? '?')} out` +
    `${first}${speed}, ${(timings.total_ms / 1000).toFixed(2)} s in total`
  );
}
