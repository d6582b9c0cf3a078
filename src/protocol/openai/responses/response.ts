/** The response object: in the answer, in the first and last events of a stream, and in the store. */
import type { SvcError } from '../../errors.ts';
import type { FinishEvent, RouteEvent, StartEvent, Usage } from '../../generate.ts';
import { given } from '../../given.ts';
import { truncatedOf } from '../completion-response.ts';
import { openAiCode, openAiMessage } from '../error.ts';
import { ignoredField } from '../tools.ts';
import type { ContentItem, OutputItem } from './items.ts';
import type { ResponseSettings } from './request.ts';

/** `queued` and `cancelled`: background responses only. */
export type ResponseStatus = 'queued' | 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled';

/** What is known of an answer so far. */
export interface ResponseFacts {
  readonly id: string;
  /** Seconds since 1970. */
  readonly createdAt: number;
  /** null: not completed. */
  readonly completedAt: number | null;
  readonly status: ResponseStatus;
  readonly background: boolean;
  /** Model that answers; before the start the requested one, `''` for the default. */
  readonly model: string;
  readonly settings: ResponseSettings;
  /** True if the response is, or will be, stored. */
  readonly store: boolean;
  readonly ignoredTools: readonly string[];
  /** Types of the items of the input that were left out. */
  readonly ignoredItems: readonly string[];
  readonly output: readonly OutputItem[];
  readonly start: StartEvent | null;
  readonly route: RouteEvent | null;
  readonly finish: FinishEvent | null;
  readonly error: SvcError | null;
}

/** A response as clients get it. */
export interface ResponseRecord {
  readonly id: string;
  readonly object: 'response';
  readonly status: ResponseStatus;
  readonly output: readonly OutputItem[];
  readonly [field: string]: unknown;
}

/** A response with all that a later request needs to continue it. */
export interface StoredResponse {
  /** Client that may read it (`shareOf`). */
  readonly owner: string;
  /** Milliseconds since 1970. */
  readonly stored_at: number;
  readonly response: ResponseRecord;
  /** All items that the answer was made from, those of previous responses included. */
  readonly input: readonly ContentItem[];
  /** False: they were too large to be stored, as was the output; the response cannot be continued. Absent: true. */
  readonly has_items?: false;
}

/** Beyond OpenAI's fields it has those that chat completions have. */
export function toResponse(facts: ResponseFacts): ResponseRecord {
  const { status, settings, start, route, finish, error } = facts;
  return {
    id: facts.id,
    object: 'response',
    created_at: facts.createdAt,
    completed_at: facts.completedAt,
    status,
    background: facts.background,
    error: error === null ? null : { code: codeOf(error), message: openAiMessage(error) },
    incomplete_details: status === 'incomplete' ? { reason: incompleteReason(finish) } : null,
    model: facts.model,
    output: [...facts.output],
    ...settings,
    max_tool_calls: null,
    service_tier: 'default',
    store: facts.store,
    usage: finish?.usage === null || finish === null ? null : toUsage(finish.usage, facts.output),
    ...ignoredField(facts.ignoredTools),
    ...(facts.ignoredItems.length === 0 ? {} : { ignored_items: facts.ignoredItems }),
    ...given({ provider: start?.provider, route: route?.route, timings: finish?.timings }),
    ...(finish === null ? {} : { ...truncatedOf(finish), ...given({ repetition: finish.repetition }) }),
  };
}

function incompleteReason(finish: FinishEvent | null): string {
  return finish?.reason === 'content_filter' ? 'content_filter' : 'max_output_tokens';
}

/** If a provider does not count its reasoning, the number is left out. */
function toUsage(usage: Usage, output: readonly OutputItem[]): object {
  const { input_tokens, output_tokens, cached_tokens } = usage;
  const isUncounted = usage.reasoning_tokens === undefined && output.some(({ type }) => type === 'reasoning');
  const { reasoning_tokens = 0 } = usage;
  return {
    input_tokens,
    input_tokens_details: { cached_tokens },
    output_tokens,
    ...(isUncounted ? {} : { output_tokens_details: { reasoning_tokens } }),
    total_tokens: input_tokens + output_tokens,
  };
}

/** OpenAI's code of a failed response. */
export function codeOf(error: SvcError): string {
  return openAiCode(error) ?? (error.facts.http < 500 ? 'invalid_prompt' : 'server_error');
}
