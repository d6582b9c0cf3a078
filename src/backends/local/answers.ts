/**
 * Answers requests with the engines of the pool: leases the engine of the model, loads it if necessary, and forwards
 * its events.
 *
 * If an engine dies before any content of a request has been sent, the request is retried once on the restarted engine;
 * the client notices only a delay. After the first content the client gets ENGINE_CRASHED: a second answer would not
 * continue the first. A request that has crashed the engine before is tried once, alone and after a delay (backoff.ts).
 */
import type { Logger } from '../../log/log.ts';
import { shareOf } from '../../protocol/caller.ts';
import type { EmbedRequest } from '../../protocol/embed.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { FinishEvent, GenerateRequest, StartEvent } from '../../protocol/generate.ts';
import type { ModelRecord } from '../../protocol/records.ts';
import type { RerankRequest } from '../../protocol/rerank.ts';
import type { DetokenizeRequest, TokenizeRequest } from '../../protocol/tokenize.ts';
import type { GenerateContext } from '../backend.ts';
import type { Leaving, Visit } from './backoff.ts';
import type { EngineModel } from './engine-model.ts';
import type { ContentEvent, EngineAnswer } from './generation.ts';
import type { Pool } from './pool.ts';
import { checkKind, explained, settingsOf, type Wanted } from './request.ts';
import type { Supervisor } from './supervisor.ts';
import type { Turn } from './suspects.ts';

export interface AnswersOptions {
  readonly pool: Pool;
  readonly log: Logger;
  /** Throws MODEL_NOT_FOUND, or NOT_READY while svc is stopping. */
  find(name: string | undefined, signal: AbortSignal): Promise<ModelRecord>;
  engineModelOf(model: ModelRecord): EngineModel;
}

/** A request of any kind. */
export type AnyRequest = GenerateRequest | EmbedRequest | RerankRequest | TokenizeRequest | DetokenizeRequest;

/** How requests of one kind are put to an engine. */
export interface Asking<Content extends ContentEvent> {
  readonly wanted: Wanted;
  /** Throws INVALID_REQUEST, before an engine is started in vain. The result is called again for a retry. */
  prepare(model: ModelRecord): (engine: Supervisor) => EngineAnswer<Content>;
}

interface Borrowed {
  readonly engine: Supervisor;
  /** Id in the request; the engine may have been started for the same file under another name. */
  readonly model: string;
  /** Resolves when the engine is loaded with the context length of the request. */
  ready(): Promise<void>;
  release(): void;
}

export class Answers {
  readonly #options: AnswersOptions;

  constructor(options: AnswersOptions) {
    this.#options = options;
  }

  async *answer<Content extends ContentEvent>(
    request: AnyRequest,
    context: GenerateContext,
    { wanted, prepare }: Asking<Content>,
  ): AsyncGenerator<StartEvent | Content | FinishEvent, void, undefined> {
    const found = await this.#options.find(request.model, context.signal);
    checkKind(found, wanted);
    const ask = prepare(found);
    const { engine, model, ready, release } = this.#borrow(request, found, context);
    const { signal, arrivedAt, traceId } = context;
    let [isStarted, hasContent] = [false, false];
    try {
      let isAsked = await engine.culprits.rest(request, signal);
      for (let attempt = isAsked ? 2 : 1; ; attempt++) {
        let turn: Turn | undefined;
        let visit: Visit | undefined;
        let leaving: Leaving = 'given up';
        try {
          if (isAsked) turn = await engine.suspects.turn(signal);
          do await ready();
          while (!isAsked && (await engine.suspects.none(signal)));
          const answer = ask(engine);
          visit = engine.culprits.enter(request, answer.id, turn);
          isAsked = true;
          for await (const event of answer.events(signal, { model, arrivedAt })) {
            if (event.type === 'start') {
              if (isStarted) continue;
              isStarted = true;
            } else if (event.type !== 'finish') {
              turn?.end();
              leaving = 'ended';
              hasContent = true;
            } else {
              leaving = answer.isComputed ? 'answered' : 'ended';
            }
            yield event;
          }
          return;
        } catch (error) {
          if (!signal.aborted) leaving = 'ended';
          if (!(error instanceof SvcError)) throw error;
          if (attempt > 1 || hasContent || error.code !== 'ENGINE_CRASHED') throw explained(error, request, engine);
          const facts = { id: traceId, model, reason: error.message };
          this.#options.log.warn(facts, 'engine crashed before the first token: retrying once');
        } finally {
          turn?.end();
          if (visit !== undefined) engine.culprits.leave(visit, leaving);
        }
      }
    } finally {
      release();
    }
  }

  #borrow(
    { context_length, keep_alive_seconds }: AnyRequest,
    model: ModelRecord,
    { caller, signal }: GenerateContext,
  ): Borrowed {
    // These affect all clients: only an admin may reload a model with a longer context or shorten its keep-alive.
    const mayChange = caller.scope === 'admin';
    const engineModel = this.#options.engineModelOf(model);
    const length = contextOf(context_length, engineModel);
    const lease = this.#options.pool.acquire(engineModel, model.id, shareOf(caller));
    const { engine } = lease;
    if (model.default) {
      engine.keep();
      lease.keepAlive(Infinity);
    }
    return {
      engine,
      model: model.id,
      ready: async () => {
        await engine.ready(signal, mayChange ? length : 0);
        const has = engine.info?.context_length ?? length;
        if (!mayChange && has < length) throw mayNotReload(model.id, has, settingsOf(engine).context_length);
      },
      release: () => {
        const stay = keep_alive_seconds ?? model.settings?.keep_alive;
        // A name that shares the engine of a model that stays loaded does not unload it.
        const mayShorten = keep_alive_seconds === undefined ? !engine.kept : mayChange;
        lease.release(stay === undefined ? undefined : toMilliseconds(stay), mayShorten);
      },
    };
  }
}

/** `setting`: the one that decides for this model. */
function mayNotReload(model: string, contextLength: number, setting: string): SvcError {
  return new SvcError(
    'FORBIDDEN',
    `context_length is larger than the ${String(contextLength)} tokens that ${model} is loaded with, and this API key may not reload it`,
    {
      hint: `omit context_length, set ${setting} in the config, or use a key with scope admin`,
      param: 'context_length',
    },
  );
}

/** Converts a keep-alive; a negative one means forever. */
export function toMilliseconds(seconds: number): number {
  return seconds < 0 ? Infinity : seconds * 1000;
}

/**
 * Returns the minimum context length of a request or load, in tokens; 0: none was requested. Throws INVALID_REQUEST if
 * it is longer than the model was trained for, and than the config has set.
 */
export function contextOf(asked: number | undefined, { id, context_length: trained, load }: EngineModel): number {
  const longest = Math.max(trained ?? Infinity, load.context_length ?? 0);
  if (asked === undefined || asked <= longest) return asked ?? 0;
  throw new SvcError(
    'INVALID_REQUEST',
    `context_length is ${String(asked)}, but ${id} was trained for ${String(trained)} tokens`,
    {
      hint: `omit context_length, ask for at most ${String(longest)}, or use a model that was trained for more`,
      param: 'context_length',
    },
  );
}
