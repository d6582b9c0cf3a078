/** `POST /v1/responses`: a response, whole or as a stream of events. */
import { shareOf } from '../../../../protocol/caller.ts';
import { SvcError } from '../../../../protocol/errors.ts';
import { refuseFile, type AnswerEvent } from '../../../../protocol/generate.ts';
import { ResponseBuilder, type ResponseEvent } from '../../../../protocol/openai/responses/response-builder.ts';
import { responseIdOf, storedItems, type ContentItem } from '../../../../protocol/openai/responses/items.ts';
import { inTheirWords, parseResponses, type ResponsesCall } from '../../../../protocol/openai/responses/request.ts';
import { SSE_CONTENT_TYPE, SSE_HEARTBEAT, sseEvent } from '../../../../protocol/streams/sse.ts';
import { invalid } from '../../../../protocol/validate.ts';
import { readJson } from '../../body.ts';
import { contextOf, type Exchange } from '../../exchange.ts';
import { withErrors } from '../../with-errors.ts';
import { createInBackground } from './background.ts';
import { conversationOf, type FullConversation } from './conversation.ts';

type Events = AsyncIterable<AnswerEvent>;

export async function createResponse(exchange: Exchange): Promise<void> {
  const body = await readJson(exchange);
  const call = parseResponses(body);
  refuseFile(call.request);
  if (call.background) {
    await createInBackground(exchange, call, body);
    return;
  }
  const run = await Run.of(exchange, call);
  if (call.stream) await run.answerStream();
  else await run.answerWhole();
}

/** A request while it is answered. */
class Run {
  readonly #exchange: Exchange;
  readonly #answer: ResponseBuilder;
  readonly #events: Events;
  readonly #items: readonly ContentItem[];
  readonly #owner: string;
  /** First events of the stream, until something follows them. */
  #opening = '';

  /** Throws INVALID_REQUEST, and BUSY if the stored conversation is too large for now. */
  static async of(exchange: Exchange, call: ResponsesCall): Promise<Run> {
    const owner = shareOf(contextOf(exchange).caller);
    return new Run(exchange, call, await conversationOf(exchange, call, owner), owner);
  }

  private constructor(exchange: Exchange, call: ResponsesCall, conversation: FullConversation, owner: string) {
    const { services, id } = exchange;
    const context = contextOf(exchange);
    this.#exchange = exchange;
    this.#owner = owner;
    this.#items = conversation.items.map(({ item }) => item);
    this.#answer = new ResponseBuilder({ id: responseIdOf(id), call, store: mayStore(exchange, call) });
    const { messages, places } = conversation;
    this.#events = withErrors(services.router.route({ ...call.request, messages }, context), (error) =>
      inTheirWords(error, call, places),
    );
  }

  async answerWhole(): Promise<void> {
    for await (const event of this.#events) this.#answer.take(event);
    await this.#store();
    this.#exchange.reply.json(200, this.#answer.response);
  }

  /**
   * Sends nothing before the first text or heartbeat: until then an error is an HTTP status, which clients can retry.
   */
  async answerStream(): Promise<void> {
    const { reply } = this.#exchange;
    reply.stream({
      contentType: SSE_CONTENT_TYPE,
      // The comment: while a finished answer is stored.
      heartbeat: () => this.#opened(encoded(this.#answer.heartbeat())) || SSE_HEARTBEAT,
      encodeError: (error, id) => this.#opened(encoded(this.#answer.fail(error, id))),
    });
    try {
      for await (const event of this.#events) {
        const text = encoded(this.#answer.take(event));
        if (event.type === 'start') this.#opening = text;
        else if (text !== '') await reply.write(this.#opened(text));
      }
    } catch (error) {
      if (error instanceof SvcError && error.code === 'CONTEXT_OVERFLOW') await this.#overflow(error);
      throw error;
    }
    await this.#store();
    await reply.write(encoded(this.#answer.last()));
    reply.end();
  }

  /** The text, after the first events unless they were sent. */
  #opened(text: string): string {
    const opening = this.#opening;
    this.#opening = '';
    return opening + text;
  }

  /** Codex compacts its history only if an event says so, and the stream ends cleanly. */
  async #overflow(error: SvcError): Promise<void> {
    const { reply, id } = this.#exchange;
    await reply.write(this.#opened(encoded(this.#answer.fail(error, id))));
    reply.end();
  }

  /**
   * Before the last event: a client may continue the response at once. An answer is sent even if it cannot be stored.
   */
  async #store(): Promise<void> {
    const { services } = this.#exchange;
    const { response } = this.#answer;
    if (response['store'] !== true) return;
    const input = storedItems(response.id, this.#items);
    try {
      const isStored = await services.responses.put({ owner: this.#owner, stored_at: Date.now(), response, input });
      if (!isStored) this.#answer.notStored();
    } catch (error) {
      services.log.warn({ err: error }, 'a response cannot be stored');
      this.#answer.notStored();
    }
  }
}

/** Throws INVALID_REQUEST if the client wants the response stored, and the daemon stores none. */
function mayStore({ services }: Exchange, { store }: ResponsesCall): boolean {
  const { enabled } = services.responses;
  if (store === true && !enabled) throw invalid('store', 'must be false: responses.store is off in the configuration');
  return store ?? enabled;
}

function encoded(events: readonly ResponseEvent[]): string {
  return events.map((event) => sseEvent(event.type, event)).join('');
}
