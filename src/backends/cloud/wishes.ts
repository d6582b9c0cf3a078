/**
 * Refuses request parameters that an API or server does not support, by name, instead of ignoring them silently; and
 * leaves out optional ones that a provider has refused.
 */
import { SvcError } from '../../protocol/errors.ts';
import type { GenerateRequest, Sampling } from '../../protocol/generate.ts';
import { invalid } from '../../protocol/validate.ts';

const NOT_HERE = 'is not supported by this provider';
/** Fields that only local models read. */
const LOCAL_ONLY = ['chat_template_kwargs', 'repetition_guard', 'lora'];
/** As LOCAL_ONLY, unless `reasoning_optional`: then an effort stands beside it. */
const BUDGET = 'reasoning_budget_tokens';

/** Values without effect: a server that does not support the setting answers the same. */
const IDLE: Readonly<Partial<Record<keyof Sampling, number>>> = {
  dynatemp_range: 0,
  top_k: 0,
  typical_p: 1,
  top_p: 1,
  min_p: 0,
  xtc_probability: 0,
  mirostat: 0,
  repeat_penalty: 1,
  frequency_penalty: 0,
  presence_penalty: 0,
  dry_multiplier: 0,
};

/**
 * Throws INVALID_REQUEST if the request uses a parameter in `unsupported` (see Quirks): by its name in the request, by
 * its field name in the body, or as `images`.
 */
export function refuse(request: GenerateRequest, body: object, unsupported: readonly string[]): void {
  const images = request.messages.flatMap(({ content }) =>
    typeof content === 'string' ? [] : content.filter(({ type }) => type !== 'text'),
  );
  const wishes: Readonly<Record<string, unknown>> = { ...body, ...request, ...atWork(request.sampling), images };
  const budget = request.reasoning_optional === true ? [] : [BUDGET];
  for (const name of [...budget, ...LOCAL_ONLY, ...unsupported]) {
    const wish = wishes[name];
    if (wish === undefined || (Array.isArray(wish) && wish.length === 0)) continue;
    throw invalid(name, NOT_HERE);
  }
}

/** The settings that the API supports. Throws INVALID_REQUEST for any other setting that would have an effect. */
export function knownSampling<Name extends keyof Sampling>(
  sampling: Sampling,
  known: readonly Name[],
): Partial<Pick<Sampling, Name>> {
  const isKnown = (name: string): boolean => (known as readonly string[]).includes(name);
  for (const name of Object.keys(atWork(sampling))) {
    if (!isKnown(name)) throw invalid(name, NOT_HERE);
  }
  return Object.fromEntries(Object.entries(sampling).filter(([name]) => isKnown(name))) as Partial<
    Pick<Sampling, Name>
  >;
}

function atWork(sampling: Sampling): Partial<Sampling> {
  return Object.fromEntries(
    Object.entries(sampling).filter(
      ([name, value]) => value !== IDLE[name as keyof Sampling] && !(Array.isArray(value) && value.length === 0),
    ),
  );
}

/** Refusals kept: clients choose the names of models. */
const MOST_REFUSALS = 1000;

/** Optional reasoning efforts that a provider has refused for a model. REQUIRES: requests with `reasoning_optional`. */
export class RefusedEfforts {
  readonly #refused = new Set<string>();

  /** The request to send: without an effort that was refused before. */
  known(request: GenerateRequest, model: string): GenerateRequest {
    return this.#refused.has(nameOf(request, model)) ? withoutEffort(request) : request;
  }

  /** The request to send after `error`. null: the error does not refuse an optional effort. */
  after(error: unknown, request: GenerateRequest): GenerateRequest | null {
    if (request.reasoning_effort === undefined) return null;
    if (!(error instanceof SvcError) || error.code !== 'INVALID_REQUEST') return null;
    return /reasoning|thinking/i.test(`${error.param ?? ''} ${error.quote ?? ''}`) ? withoutEffort(request) : null;
  }

  /** Call once `request` was answered without its effort. */
  add(request: GenerateRequest, model: string): void {
    this.#refused.add(nameOf(request, model));
    const [oldest] = this.#refused;
    if (this.#refused.size > MOST_REFUSALS && oldest !== undefined) this.#refused.delete(oldest);
  }
}

/** A model may support some efforts only. */
function nameOf({ reasoning_effort: effort }: GenerateRequest, model: string): string {
  return `${String(effort)} ${model}`;
}

function withoutEffort(request: GenerateRequest): GenerateRequest {
  const { reasoning_effort: _effort, reasoning_budget_tokens: _budget, ...plain } = request;
  return plain;
}
