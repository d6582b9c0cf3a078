/** `POST /api/pull` in Ollama's format: JSON lines with a status, the last one `success`. */
import * as v from 'valibot';
import { SvcError } from '../../../protocol/errors.ts';
import { ndjsonLine } from '../../../protocol/streams/ndjson.ts';
import { nameSchema } from '../../../protocol/ollama/names.ts';
import { fieldsOf } from '../../../protocol/ollama/request.ts';
import type { PullEvent } from '../../../protocol/routes.ts';
import { parse } from '../../../protocol/validate.ts';
import { readJson } from '../body.ts';
import type { Exchange } from '../exchange.ts';
import { LINES } from './lines.ts';

const PullSchema = v.object({ model: nameSchema, stream: v.exactOptional(v.boolean(), true) });

export async function ollamaPull(exchange: Exchange): Promise<void> {
  const { reply, services, signal } = exchange;
  const { model, stream: isStream } = parse(PullSchema, fieldsOf(await readJson(exchange)));
  if (isStream) reply.stream(LINES);
  let digest = '';
  for await (const event of services.pull({ model }, signal, 'ollama')) {
    if (event.type === 'resolved') digest = event.files[0]?.digest ?? '';
    if (isStream) for (const line of linesOf(event, digest)) await reply.write(ndjsonLine(line));
  }
  if (isStream) reply.end();
  else reply.json(200, { status: 'success' });
}

function linesOf(event: PullEvent, digest: string): object[] {
  const status = `pulling ${digest.slice('sha256:'.length, 'sha256:'.length + 12)}`;
  switch (event.type) {
    case 'resolved':
      return [
        { status: 'pulling manifest' },
        { status, digest, total: event.total_bytes, completed: event.present_bytes },
      ];
    case 'progress':
      return [{ status, digest, total: event.total_bytes, completed: event.done_bytes }];
    case 'waiting':
      return [{ status: event.reason }];
    case 'pulled':
      return [{ status: 'verifying sha256 digest' }, { status: 'writing manifest' }, { status: 'success' }];
    case 'error':
      throw SvcError.fromRecord(event.error);
  }
}
