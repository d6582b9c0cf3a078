/** Streams of JSON lines, as Ollama sends them. */
import { NDJSON_CONTENT_TYPE, ndjsonLine } from '../../../protocol/streams/ndjson.ts';
import { toOllamaError } from '../../../protocol/ollama/error.ts';
import type { Reply, StreamFormat } from '../reply.ts';

export const LINES: StreamFormat = {
  contentType: NDJSON_CONTENT_TYPE,
  // Its clients take every line, also an empty one, for JSON. Answers have one of their own.
  heartbeat: null,
  encodeError: (error) => ndjsonLine(toOllamaError(error)),
};

/** Sends the only record of an answer, as a record or as a stream of one line. */
export async function sendOne(reply: Reply, isStream: boolean, record: object): Promise<void> {
  if (!isStream) {
    reply.json(200, record);
    return;
  }
  reply.stream(LINES);
  await reply.write(ndjsonLine(record));
  reply.end();
}
