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
import {
  answerFlags,
  modelFlag,
  rawFlag,
  routingFlags,
  systemFlag,
  type Arguments,
  type Flags,
  type Run,
  type Spec,
  type Specs,
} from '../spec.ts';
import { ensureServing } from '../machine/daemon.ts';
import type { FormatFile } from '../asking/format-file.ts';
import type { Continued } from '../asking/go-on.ts';
import { introduceBuiltin } from '../asking/introduce.ts';
import { readMedia } from '../asking/media-files.ts';
import { modelAndPrompt, type ModelAndPrompt } from '../asking/model-and-prompt.ts';
import { offeringPull } from '../asking/offer-pull.ts';
import { err, exit, out, printJson, printJsonLine, say } from '../terminal/output.ts';
import { openWriter, type AnswerWriter } from '../asking/writer.ts';
import { hasInput, readInput, readPromptInput, type PromptInput } from '../asking/stdin.ts';

const INTERRUPTED = 130;
const NO_PROMPT: PromptInput = { text: '', late: undefined };

export const spec = {
  summary: 'Answer one prompt',
  detail: [
    'Reads standard input if it is a pipe or a file, or if the prompt is `-`. With a prompt, the input is appended to it after a blank line; a pipe that stays silent is then ignored, unless `-` follows the prompt.',
    'The first word is the model if it is the name of an installed model or one of the catalogue; the other words are the prompt, with or without quotes. Without a prompt, on a terminal, a chat with the model begins. A prompt that begins with such a name or with a dash goes after `--`.',
    'Starts the daemon if none is running. Ctrl-C stops the generation in the engine.',
  ],
  arguments: [
    { name: 'model', required: false, completes: 'model' },
    { name: 'prompt', required: false, repeated: true },
    { name: '-', required: false },
  ],
  passesOn: 'prompt...',
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
    continue: {
      kind: 'switch',
      short: 'c',
      summary: 'continue the last kept conversation; needs history.enabled',
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
    yes: {
      kind: 'switch',
      short: 'y',
      summary: 'pull the model first if it is not installed, without asking',
    },
    ...routingFlags,
  },
  examples: [
    'svc run "Why is the sky blue?"',
    'svc run qwen3-4b Why is the sky blue',
    'svc run --yes qwen3-4b "Why is the sky blue?"',
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
    'svc run --continue "And in French?"',
  ],
} as const satisfies Spec;

type RunFlags = Flags<typeof spec>;

export const run: Run<typeof spec> = async (typed, words, loadSpecs, literal) => {
  // Before reading standard input, which may take long.
  routeOf(typed);
  const asked = await askedBy(typed, words, literal);
  const flags = { ...typed, model: typed.model ?? asked.model };
  if (asked.model === undefined || asked.prompt !== '' || asked.isInputAwaited || !canChat(flags)) {
    await answerOnce(flags, asked);
    return;
  }
  await chatWith(asked.model, flags, loadSpecs);
};

interface Asked extends ModelAndPrompt {
  /** A final `-`: standard input is waited for. */
  readonly isInputAwaited: boolean;
}

async function askedBy(
  { model, provider, cloud }: RunFlags,
  { model: first, prompt: others, '-': dash }: Arguments<typeof spec>,
  literal: readonly string[],
): Promise<Asked> {
  const words = [...(first === undefined ? [] : [first]), ...others];
  if (words[0] === '-') throw misplacedDash();
  const isInputAwaited = dash === '-';
  // A provider's models are not known here, so there the words are the prompt.
  const mayBeNamed = model === undefined && provider === undefined && !cloud;
  if (mayBeNamed) return { ...(await modelAndPrompt(words, literal)), isInputAwaited };
  return { model: undefined, prompt: [...words, ...literal].join(' '), isInputAwaited };
}

async function answerOnce(typed: RunFlags, asked: Asked): Promise<void> {
  const media = await readMedia(typed.image, typed.audio);
  const continued = await continuedBy(typed);
  const flags = continued === undefined ? typed : { ...typed, model: modelOf(typed, continued) };
  const before = continued?.messages ?? (await messagesFile(flags));
  const isComplete = continued === undefined && before.length > 0 && asked.prompt === '';
  const { text: prompt, late } = isComplete ? NO_PROMPT : await readPrompt(asked);
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
    await answer(client, request, live ? await openWriter(isRaw, flags.raw) : undefined, late);
  const result = await offeringPull(flags.model, flags, ask).catch((error: unknown) => {
    throw file?.blame(error) ?? error;
  });
  await continued?.keep(request.messages, result);
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
}

/** True if a model without a prompt begins a chat: on a terminal, without a flag that only one answer can have. */
function canChat(flags: RunFlags): boolean {
  const { json, 'no-stream': isWhole, stats, schema, grammar, tools, messages, image, audio, timeout } = flags;
  const isOneAnswer = [schema, grammar, tools, messages, timeout].some((flag) => flag !== undefined);
  const isOnTerminal = out.isTerminal && err.isTerminal && !hasInput() && !flags.continue;
  return isOnTerminal && !json && !isWhole && !stats && !isOneAnswer && image.length === 0 && audio.length === 0;
}

async function chatWith(model: string, flags: RunFlags, loadSpecs: () => Promise<Specs>): Promise<void> {
  await offeringPull(model, flags, async () => {
    const { findModel } = await import('../machine/models.ts');
    await findModel(model);
  });
  const { run: chat } = await import('./chat.ts');
  await chat({ ...flags, model }, {}, loadSpecs, []);
}

function misplacedDash(): SvcError {
  return new SvcError('INVALID_REQUEST', '`-` must be the last word', { hint: 'svc run "Summarise this" -' });
}

/** Returns the argument, standard input, or both. A silent pipe is ignored only beside an argument without `-`. */
async function readPrompt({ model, prompt: typed, isInputAwaited }: Asked): Promise<PromptInput> {
  const { text: input, late } =
    isInputAwaited || (hasInput() && typed.trim() === '')
      ? { text: await readInput(LIMITS.bodyBytes), late: undefined }
      : await readPromptInput(LIMITS.bodyBytes);
  const parts = [typed, input].filter((part) => part.trim() !== '');
  if (parts.length > 0) return { text: parts.join('\n\n'), late };
  throw new SvcError('INVALID_REQUEST', 'no prompt was given', {
    hint:
      model === undefined
        ? 'give one: svc run "Why is the sky blue?", or pipe it in: svc run - < question.txt'
        : `${model} is a model: give the prompt after it, svc run ${model} "…"; or send the word itself: svc run -- ${model}`,
  });
}

/** Reads `--schema` or `--grammar`; its module is imported only if one is given. */
async function formatFile({ schema, grammar }: RunFlags): Promise<FormatFile | null> {
  if (schema === undefined && grammar === undefined) return null;
  const { readFormat } = await import('../asking/format-file.ts');
  return await readFormat(schema, grammar);
}

/** undefined: without `--continue`. */
async function continuedBy({ continue: goesOn, messages }: RunFlags): Promise<Continued | undefined> {
  if (!goesOn) return undefined;
  if (messages !== undefined) {
    throw new SvcError('INVALID_REQUEST', '--continue and --messages exclude each other', { hint: 'give one of them' });
  }
  return await (await import('../asking/go-on.ts')).lastConversation();
}

/** The model of the conversation answers, unless another one, or a provider, is chosen. */
function modelOf({ model, provider, cloud }: RunFlags, continued: Continued): string | undefined {
  return model ?? (provider === undefined && !cloud ? continued.model : undefined);
}

async function messagesFile({ messages }: RunFlags): Promise<readonly Message[]> {
  return messages === undefined ? [] : await (await import('../asking/messages-file.ts')).readMessages(messages);
}

async function toolsOf({
  tools,
  'tool-choice': choice,
}: RunFlags): Promise<Pick<GenerateRequest, 'tools' | 'tool_choice'>> {
  if (tools === undefined && choice === undefined) return {};
  const { readTools, toolChoiceOf } = await import('../asking/tools-file.ts');
  return given({
    tools: tools === undefined ? undefined : await readTools(tools),
    tool_choice: choice === undefined ? undefined : toolChoiceOf(choice),
  });
}

/** `prompt`: empty if the messages before it are the whole chat. */
function withPrompt(
  flags: RunFlags,
  before: readonly Message[],
  prompt: string,
  media: readonly ContentPart[],
): GenerateRequest {
  const { system, model, timeout } = flags;
  const text: ContentPart[] = prompt === '' ? [] : [{ type: 'text', text: prompt }];
  const content = media.length === 0 ? prompt : [...media, ...text];
  // A system message that is given replaces that of the continued conversation.
  const others = system === undefined ? before : before.filter(({ role }) => role !== 'system' || !flags.continue);
  const messages: Message[] = [
    ...(system === undefined ? [] : [{ role: 'system' as const, content: system }]),
    ...others,
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
  const writer = await openWriter(raw, raw);
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
