/** Adds the events of an answer up: for the CLI, HTTP, gRPC, embeddings, reranking and tokenizing. */
import type { EmbedEvent } from './embed.ts';
import { SvcError } from './errors.ts';
import type {
  AnswerEvent,
  AnswerFacts,
  FinishEvent,
  RouteEvent,
  StartEvent,
  TokenLogprobs,
  ToolCall,
} from './generate.ts';
import type { RankedDocument, RerankEvent } from './rerank.ts';
import type { DetokenizeEvent, TokenizeEvent, TokensEvent } from './tokenize.ts';

type CollectedEvent = AnswerEvent | EmbedEvent | RerankEvent | TokenizeEvent | DetokenizeEvent;

export class Collector {
  text = '';
  reasoning = '';
  readonly logprobs: TokenLogprobs[] = [];
  readonly vectors: Float32Array[] = [];
  readonly scores: number[] = [];
  #tokens: TokensEvent | undefined;
  readonly #calls: { id: string; name: string; arguments: string }[] = [];
  #route: RouteEvent | undefined;
  #start: StartEvent | undefined;
  #finish: FinishEvent | undefined;

  /** Resolves with the whole answer. */
  static async of(events: AsyncIterable<CollectedEvent>): Promise<Collector> {
    const collector = new Collector();
    for await (const event of events) collector.add(event);
    return collector;
  }

  add(event: CollectedEvent): void {
    switch (event.type) {
      case 'text':
        this.text += event.text;
        this.logprobs.push(...(event.logprobs ?? []));
        break;
      case 'reasoning':
        this.reasoning += event.text;
        break;
      case 'tool_call': {
        const call = (this.#calls[event.index] ??= { id: '', name: '', arguments: '' });
        call.id ||= event.id ?? '';
        call.name ||= event.name ?? '';
        call.arguments += event.arguments;
        break;
      }
      case 'vectors':
        this.vectors.push(...event.vectors);
        break;
      case 'scores':
        this.scores.push(...event.scores);
        break;
      case 'tokens':
        this.#tokens = event;
        break;
      default:
        this.note(event);
    }
  }

  /** Like `add`, without the content: for a consumer that forwards it. */
  note(event: CollectedEvent): void {
    if (event.type === 'route') this.#route = event;
    else if (event.type === 'start') this.#start = event;
    else if (event.type === 'finish') this.#finish = event;
  }

  get toolCalls(): readonly ToolCall[] {
    return this.#calls.filter((call) => call.name !== '');
  }

  // The router sends all three, or throws. So one is missing only if a client's daemon is of another kind.
  get route(): RouteEvent {
    return this.#route ?? missing();
  }
  get start(): StartEvent {
    return this.#start ?? missing();
  }
  get finish(): FinishEvent {
    return this.#finish ?? missing();
  }
  /** The fields that all whole answers have. */
  get facts(): AnswerFacts {
    const { model, provider } = this.start;
    const { usage, timings } = this.finish;
    const { route, trace_id } = this.route;
    return { model, provider, route, usage, timings, trace_id };
  }
  /** REQUIRES: the answer to a request to tokenize. */
  get tokens(): TokensEvent {
    return this.#tokens ?? missing();
  }
}

function missing(): never {
  throw new SvcError('INTERNAL', 'unexpected answer from the daemon: events are missing');
}

/** The best `most` documents, best first; of equal scores in the order of the request. */
export function ranked(scores: readonly number[], most = scores.length): RankedDocument[] {
  return scores
    .map((score, index) => ({ index, score }))
    .sort((a, b) => b.score - a.score)
    .slice(0, most);
}
