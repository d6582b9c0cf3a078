/** Streams of events as JSON lines, in svc's own routes. */
import { SvcError } from '../../protocol/errors.ts';
import { NDJSON_CONTENT_TYPE, ndjsonLine } from '../../protocol/streams/ndjson.ts';
import type { ErrorEvent } from '../../protocol/routes.ts';
import type { Exchange } from './exchange.ts';
import type { StreamFormat } from './reply.ts';

export const EVENT_LINES: StreamFormat = {
  contentType: NDJSON_CONTENT_TYPE,
  // An empty line, which clients skip.
  heartbeat: '\n',
  encodeError: (error, id) => ndjsonLine({ type: 'error', id, error: error.toRecord() } satisfies ErrorEvent),
};

/** Sends each event as a line. Throws the error of an error event. */
export async function streamLines(
  { reply }: Exchange,
  events: AsyncIterable<{ readonly type: string } | ErrorEvent>,
): Promise<void> {
  reply.stream(EVENT_LINES);
  for await (const event of events) {
    if (isError(event)) throw SvcError.fromRecord(event.error);
    await reply.write(ndjsonLine(event));
  }
  reply.end();
}

function isError(event: { readonly type: string } | ErrorEvent): event is ErrorEvent {
  return event.type === 'error';
}
