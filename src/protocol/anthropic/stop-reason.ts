/** Why an answer ends: Anthropic's names and ours, for its API in both directions. */
import { SvcError } from '../errors.ts';
import type { FinishEvent, FinishReason } from '../generate.ts';

/** The first name of each of our reasons is the one that svc answers with. */
const NAMES = [
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  // The server would continue if asked again, which svc does not do: so the answer was cut off.
  ['pause_turn', 'length'],
  ['tool_use', 'tool_calls'],
  ['refusal', 'content_filter'],
] as const satisfies readonly (readonly [string, FinishReason])[];

/** Anthropic's `stop_reason`. */
export type StopReason = (typeof NAMES)[number][0];

/** Our reasons by Anthropic's names. */
export const FINISH_REASONS: ReadonlyMap<string, FinishReason> = new Map(NAMES);

/**
 * `maxTokens`: limit of the request. A shorter answer of a local model that was cut off has filled the context; a
 * provider may have limits of its own. Throws CANCELLED for a cancelled answer: this API has no name for it.
 */
export function toStopReason(finish: FinishEvent, provider: string, maxTokens: number): StopReason {
  const { reason, stop_string, usage, repetition } = finish;
  if (reason === 'stop' && stop_string !== undefined) return 'stop_sequence';
  const isShort = usage !== null && usage.output_tokens < maxTokens && repetition?.stopped !== true;
  if (reason === 'length' && provider === 'local' && isShort) return 'model_context_window_exceeded';
  const name = NAMES.find(([, ours]) => ours === reason)?.[0];
  if (name === undefined) throw new SvcError('CANCELLED', 'the generation was cancelled');
  return name;
}
