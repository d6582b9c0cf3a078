/** Shared by `run`, `chat` and `bench`: building a request from flags, and receiving its streamed answer. */
import type { Client } from '../../client/client.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { GenerateRequest, GenerateResult, Lora, Message, Sampling } from '../../protocol/generate.ts';
import { given } from '../../protocol/given.ts';
import type { answerFlags, FlagValues, routingFlags } from '../spec.ts';
import { count } from '../terminal/format.ts';
import { requestedModel } from '../machine/model-name.ts';
import { say, sayProgress } from '../terminal/output.ts';

/** After this long without an event, a terminal shows "waiting for the model". */
const QUIET_MS = 1000;
/** As in LoraSchema (protocol/generate.ts), which would be loaded by every command. */
const MOST_SCALE = 100;

export interface AnswerOptions {
  /** Aborting stops the generation in the engine. */
  readonly signal: AbortSignal;
  readonly onText?: (text: string) => void;
  readonly onReasoning?: (text: string) => void;
}

/** Rejects with the SvcError that ended the answer; text received before has been passed to `onText`. */
export async function receive(
  client: Client,
  request: GenerateRequest,
  { signal, onText, onReasoning }: AnswerOptions,
): Promise<GenerateResult> {
  const quiet = setTimeout(() => {
    sayProgress('waiting for the model');
  }, QUIET_MS);
  const answer = client.generate(request, { signal });
  let isEmpty = true;
  let hasText = false;
  try {
    for await (const event of answer) {
      clearTimeout(quiet);
      if (isEmpty) sayProgress('');
      if (event.type === 'text') onText?.(event.text);
      else if (event.type === 'reasoning') onReasoning?.(event.text);
      hasText ||= event.type === 'text';
      isEmpty &&= event.type !== 'text' && event.type !== 'reasoning';
    }
  } finally {
    clearTimeout(quiet);
    if (!hasText) sayProgress('');
  }
  return await answer.result();
}

/** True if the answer ended at the limit of the context, or of the tokens of the model's settings. */
export function isFull({ finish_reason, repetition }: GenerateResult): boolean {
  return finish_reason === 'length' && repetition?.stopped !== true;
}

/** Reports on standard error that the answer repeats itself. */
export function sayRepeated({ repetition }: GenerateResult): void {
  if (repetition === undefined) return;
  say(`the answer repeats itself${repetition.stopped ? ' and was ended: repetition_guard' : ''}`);
}

/** Reports on standard error how many prompt tokens were dropped by truncation. */
export function sayTruncated({ usage }: GenerateResult): void {
  const went = usage?.truncated_tokens ?? 0;
  if (went > 0) say(`the prompt did not fit in the model's context: ${count(went)} tokens were dropped`);
}

/** Returns `local`, `cloud` or `provider:NAME`; undefined means the configured order. */
export function routeOf({
  local,
  cloud,
  provider,
}: Omit<FlagValues<typeof routingFlags>, 'no-start'>): string | undefined {
  const chosen = [local ? 'local' : undefined, cloud ? 'cloud' : undefined, provider && `provider:${provider}`];
  const routes = chosen.filter((route) => route !== undefined);
  if (routes.length > 1) {
    throw new SvcError('INVALID_REQUEST', '--local, --cloud and --provider exclude each other', {
      hint: 'give one of them',
    });
  }
  return routes[0];
}

/** Builds a request. `model`: as typed. */
export function requestOf(
  flags: FlagValues<typeof answerFlags & typeof routingFlags>,
  model: string | undefined,
  messages: readonly Message[],
): GenerateRequest {
  const sampling: Sampling = given({
    temperature: flags.temperature,
    top_k: flags['top-k'],
    top_p: flags['top-p'],
    min_p: flags['min-p'],
    seed: flags.seed,
  });
  return {
    messages: [...messages],
    sampling,
    stop: [...flags.stop],
    ...given({
      model: requestedModel(model),
      max_tokens: flags['max-tokens'],
      truncate: flags.truncate ? true : undefined,
      lora: flags.lora.length === 0 ? undefined : flags.lora.map(loraOf),
      reasoning_effort: flags.think === 'off' ? 'none' : flags.think,
      route: routeOf(flags),
    }),
  };
}

/** The daemon checks the id. */
function loraOf(typed: string): Lora {
  const [id = '', scale = '1', ...rest] = typed.split('=');
  const number = scale.trim() === '' || rest.length > 0 ? NaN : Number(scale);
  if (!(Math.abs(number) <= MOST_SCALE)) {
    throw new SvcError(
      'INVALID_REQUEST',
      `the scale of --lora must be a number from -${String(MOST_SCALE)} to ${String(MOST_SCALE)}`,
      {
        hint: 'give --lora ID or --lora ID=SCALE',
      },
    );
  }
  return { id, scale: number };
}
