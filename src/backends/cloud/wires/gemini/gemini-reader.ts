/** Reads Gemini's streamGenerateContent: every event is a whole response with the content since the last one. */
import * as v from 'valibot';
import { SvcError } from '../../../../protocol/errors.ts';
import type { FinishReason, Usage } from '../../../../protocol/generate.ts';
import { brokenOff, readEvent } from '../../answer.ts';
import { toSvcError } from '../../provider-error.ts';
import type { ServerEvent, WireError, WireEvent, WireReader } from '../../wire.ts';

const count = v.nullish(v.number(), 0);
const UsageSchema = v.object({
  promptTokenCount: count,
  toolUsePromptTokenCount: count,
  candidatesTokenCount: count,
  thoughtsTokenCount: count,
  cachedContentTokenCount: count,
});

const PartSchema = v.object({
  text: v.optional(v.string(), ''),
  thought: v.optional(v.boolean(), false),
  functionCall: v.optional(
    v.object({ id: v.optional(v.string()), name: v.string(), args: v.optional(v.record(v.string(), v.unknown()), {}) }),
  ),
});
type Part = v.InferOutput<typeof PartSchema>;

const ResponseSchema = v.object({
  candidates: v.optional(
    v.array(
      v.object({
        index: v.optional(v.number(), 0),
        content: v.optional(v.object({ parts: v.optional(v.array(PartSchema), []) })),
        finishReason: v.optional(v.string()),
      }),
    ),
    [],
  ),
  promptFeedback: v.optional(v.object({ blockReason: v.optional(v.string()) })),
  usageMetadata: v.optional(UsageSchema),
  modelVersion: v.optional(v.string()),
  responseId: v.optional(v.string()),
  error: v.optional(v.unknown()),
});

const ErrorSchema = v.object({
  error: v.object({
    message: v.optional(v.string(), ''),
    status: v.optional(v.string()),
    details: v.optional(v.array(v.object({ reason: v.optional(v.string()) })), []),
  }),
});

/** Error in a response body, which may be a list of one, or in an event. */
export function geminiError(body: unknown): WireError | null {
  const result = v.safeParse(ErrorSchema, Array.isArray(body) ? body[0] : body);
  if (!result.success) return null;
  const { message, status, details } = result.output.error;
  // An invalid key has the status INVALID_ARGUMENT; only the details identify it.
  const reason = details.find((detail) => detail.reason !== undefined)?.reason;
  return { message, code: reason ?? status ?? null };
}

/** Any other reason is a failure, for example a malformed tool call. */
const FINISH: ReadonlyMap<string, FinishReason> = new Map([
  ['STOP', 'stop'],
  ['MAX_TOKENS', 'length'],
  ['SAFETY', 'content_filter'],
  ['RECITATION', 'content_filter'],
  ['LANGUAGE', 'content_filter'],
  ['BLOCKLIST', 'content_filter'],
  ['PROHIBITED_CONTENT', 'content_filter'],
  ['SPII', 'content_filter'],
  ['MODEL_ARMOR', 'content_filter'],
  ['IMAGE_SAFETY', 'content_filter'],
  ['IMAGE_PROHIBITED_CONTENT', 'content_filter'],
  ['IMAGE_RECITATION', 'content_filter'],
]);

export class GeminiReader implements WireReader {
  #isAnnounced = false;
  #calls = 0;
  #isFinished = false;

  read({ data }: ServerEvent): readonly WireEvent[] {
    if (data === '') return [];
    const response = readEvent(ResponseSchema, data);
    if (response.error !== undefined) throw toSvcError(geminiError(response), null);
    const events: WireEvent[] = [];
    if (!this.#isAnnounced && response.modelVersion !== undefined) {
      this.#isAnnounced = true;
      events.push({ type: 'started', model: response.modelVersion });
    }
    // Other candidates are alternatives, which we do not request.
    const candidate = response.candidates.find(({ index }) => index === 0);
    for (const part of candidate?.content?.parts ?? []) events.push(...this.#part(part, response.responseId));
    if (response.usageMetadata !== undefined) events.push({ type: 'usage', usage: toUsage(response.usageMetadata) });
    // The prompt was blocked: there are no candidates.
    if (response.promptFeedback?.blockReason !== undefined) events.push(this.#finish('content_filter'));
    if (candidate?.finishReason !== undefined) events.push(this.#finish(finishOf(candidate.finishReason)));
    return events;
  }

  end(): readonly WireEvent[] {
    if (!this.#isFinished) throw brokenOff();
    return [];
  }

  #part({ text, thought, functionCall: call }: Part, responseId: string | undefined): WireEvent[] {
    if (call !== undefined) {
      const index = this.#calls++;
      // Older models send no id. Ours is deterministic and unique to the answer.
      const id = call.id ?? `call_${responseId ?? call.name}_${String(index)}`;
      return [{ type: 'tool_call', index, id, name: call.name, arguments: JSON.stringify(call.args) }];
    }
    return text === '' ? [] : [{ type: thought ? 'reasoning' : 'text', text }];
  }

  #finish(reason: FinishReason): WireEvent {
    this.#isFinished = true;
    return { type: 'finish', reason: reason === 'stop' && this.#calls > 0 ? 'tool_calls' : reason };
  }
}

function finishOf(reason: string): FinishReason {
  const known = FINISH.get(reason);
  if (known !== undefined) return known;
  throw new SvcError('PROVIDER_FAILED', 'the provider aborted its answer', { quote: reason });
}

/** Output includes thoughts, which Gemini counts separately. Cached tokens are part of the prompt tokens. */
function toUsage(counts: v.InferOutput<typeof UsageSchema>): Usage {
  return {
    input_tokens: counts.promptTokenCount + counts.toolUsePromptTokenCount,
    output_tokens: counts.candidatesTokenCount + counts.thoughtsTokenCount,
    ...(counts.thoughtsTokenCount === 0 ? {} : { reasoning_tokens: counts.thoughtsTokenCount }),
    cached_tokens: counts.cachedContentTokenCount,
  };
}
