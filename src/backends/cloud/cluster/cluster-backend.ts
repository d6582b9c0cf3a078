/**
 * A provider with several endpoints: the user's own servers (vLLM, SGLang, llama-server, other svc daemons) with the
 * same models.
 *
 *   generate ──► slots ──► balance ──► member ──► CloudBackend of that endpoint
 *                             ▲           │ fails before its first content: next endpoint, at once
 *                             └───────────┘
 *
 * Each endpoint is tried at most once per request, and those known to be down only when no other is left. After the
 * first content there is no fallback: if the endpoint fails, the answer fails.
 */
import type { Logger } from '../../../log/log.ts';
import type { EmbedEvent, EmbedRequest } from '../../../protocol/embed.ts';
import { SvcError, type ErrorCode } from '../../../protocol/errors.ts';
import type { GenerateEvent, GenerateRequest } from '../../../protocol/generate.ts';
import type { ProviderRecord } from '../../../protocol/records.ts';
import type { RerankEvent, RerankRequest } from '../../../protocol/rerank.ts';
import type { Backend, GenerateContext } from '../../backend.ts';
import { CloudBackend, type CloudBackendOptions } from '../cloud-backend.ts';
import { refuseRaw, refuseTokenize } from '../local-only.ts';
import type { Provider } from '../provider.ts';
import { Runs } from '../runs.ts';
import { Slots } from '../slots.ts';
import { Transport } from '../transport.ts';
import { preferred, prefixKey } from './balance.ts';
import { Member, type Events, type Ask, type MemberState } from './member.ts';
import { Probe } from './probe.ts';
import { Watch } from './watch.ts';

/** Errors after which another endpoint is tried. */
const MOVES_ON: ReadonlySet<ErrorCode> = new Set(['PROVIDER_FAILED', 'BUSY', 'NOT_READY', 'MODEL_NOT_FOUND']);
/** Order of trial by state. */
const RANK: Readonly<Record<MemberState, number>> = { up: 0, full: 1, draining: 2, down: 3 };

export class ClusterBackend implements Backend {
  readonly #provider: Provider;
  readonly #log: Logger;
  readonly #members: readonly Member[];
  readonly #roots: readonly Transport[];
  readonly #slots: Slots;
  readonly #runs = new Runs();
  readonly #watch: Watch;
  #isClosing = false;

  constructor({ provider, log }: CloudBackendOptions) {
    this.#provider = provider;
    this.#log = log;
    this.#slots = new Slots(provider.concurrency);
    const { isDeclared, idleTimeoutMs } = provider;
    this.#roots = provider.endpoints.map((url) => new Transport({ baseUrl: rootOf(url), isDeclared, idleTimeoutMs }));
    this.#members = provider.endpoints.map((url, index) => {
      const backend = new CloudBackend({ provider: { ...provider, endpoints: [url], concurrency: null }, log });
      return new Member(url, backend, new Probe(this.#roots[index] as Transport));
    });
    this.#watch = new Watch(this.#members);
  }

  get name(): string {
    return this.#provider.name;
  }

  async *generate(request: GenerateRequest, context: GenerateContext): Events<GenerateEvent> {
    refuseRaw(this.name, request);
    yield* this.#ask(prefixKey(request), context, (backend, inner) => backend.generate(request, inner));
  }

  /** Vectors have no prefix in a cache: each request goes to an endpoint of its own. */
  embed(request: EmbedRequest, context: GenerateContext): Events<EmbedEvent> {
    return this.#ask(context.traceId, context, (backend, inner) => backend.embed(request, inner));
  }

  /** As `embed`. */
  rerank(request: RerankRequest, context: GenerateContext): Events<RerankEvent> {
    return this.#ask(context.traceId, context, (backend, inner) => backend.rerank(request, inner));
  }

  tokenize(): never {
    return refuseTokenize(this.name);
  }

  detokenize(): never {
    return refuseTokenize(this.name);
  }

  async modelNames(signal: AbortSignal): Promise<readonly string[]> {
    const lists = await Promise.allSettled(this.#members.map(({ backend }) => backend.modelNames(signal)));
    const known = lists.flatMap((list) => (list.status === 'fulfilled' ? list.value : []));
    const [first] = lists;
    if (known.length === 0 && first?.status === 'rejected') throw first.reason;
    return [...new Set(known)];
  }

  record(): ProviderRecord {
    const records = this.#members.map(({ backend }) => backend.record());
    const first = records[0] as ProviderRecord;
    const well = this.#members.filter(({ state }) => state === 'up' || state === 'full').length;
    const total = this.#members.length;
    const isKnown = records.some(({ state }) => state !== 'unknown') || well < total;
    return {
      ...first,
      endpoints: this.#provider.endpoints,
      state:
        first.state === 'unconfigured' ? 'unconfigured' : !isKnown ? 'unknown' : well > 0 ? 'healthy' : 'unhealthy',
      last_checked_at:
        records
          .map(({ last_checked_at }) => last_checked_at)
          .sort()
          .at(-1) ?? null,
      last_error: well < total ? `${String(well)} of ${String(total)} endpoints are up` : null,
    };
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#runs.idle();
    this.#watch.stop();
    await Promise.all([
      ...this.#members.map(({ backend }) => backend.close()),
      ...this.#roots.map((root) => root.close()),
    ]);
  }

  async destroy(error: SvcError): Promise<void> {
    this.#isClosing = true;
    this.#watch.stop();
    this.#runs.abort(error);
    await Promise.all([
      ...this.#members.map(({ backend }) => backend.destroy(error)),
      ...this.#roots.map((root) => root.destroy(error)),
    ]);
  }

  async *#ask<Event>(key: string, context: GenerateContext, ask: Ask<Event>): Events<Event> {
    if (this.#isClosing) throw new SvcError('NOT_READY', 'svc is stopping', { retryAfterSeconds: 1 });
    const run = this.#runs.begin(context.signal);
    let release: (() => void) | undefined;
    try {
      release = await this.#slots.acquire(run.signal);
      this.#watch.wake();
      yield* await this.#begin(key, { ...context, signal: run.signal }, ask);
    } finally {
      release?.();
      run.end();
    }
  }

  /** `key`: see `preferred`. */
  async #begin<Event>(key: string, context: GenerateContext, ask: Ask<Event>): Promise<Events<Event>> {
    const left = new Set(this.#members);
    for (;;) {
      const member = this.#choose([...left], key);
      left.delete(member);
      try {
        return await member.begin(ask, context);
      } catch (thrown) {
        context.signal.throwIfAborted();
        const error = SvcError.from(thrown);
        this.#watch.wake();
        if (left.size === 0 || !MOVES_ON.has(error.code)) throw error;
        const { url: endpoint, state } = member;
        // A client can cause as many of these lines as it likes.
        this.#log.debug(
          { id: context.traceId, provider: this.name, endpoint, state, code: error.code },
          'endpoint failed: trying the next one',
        );
      }
    }
  }

  /** REQUIRES: `members` is not empty. */
  #choose(members: readonly Member[], key: string): Member {
    const best = Math.min(...members.map(({ state }) => RANK[state]));
    return preferred(
      members.filter(({ state }) => RANK[state] === best),
      key,
    )[0] as Member;
  }
}

/** Base URL without the API version: where a server has its health path. */
function rootOf(url: string): string {
  return url.replace(/(?:\/openai)?\/v\d\w*$/, '');
}
