/**
 * `POST /v1/audio/transcriptions` in OpenAI's format: the transcript of a sound, by a model that hears. The request is
 * a generation like any other, with a fixed instruction.
 */
import { Collector } from '../../../protocol/collect.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { refuseFile } from '../../../protocol/generate.ts';
import {
  parseTranscription,
  SOUND,
  toTranscript,
  toTranscriptDelta,
  toTranscriptDone,
  type TranscriptionCall,
} from '../../../protocol/openai/transcription.ts';
import { sseData } from '../../../protocol/streams/sse.ts';
import { listedNamed } from '../../../protocol/model/listed.ts';
import { DEFAULT_NAME } from '../../../protocol/model/named.ts';
import { renamed } from '../../../protocol/validate.ts';
import { contextOf, type Exchange } from '../exchange.ts';
import { readForm } from '../form.ts';
import { listedModels } from './models.ts';
import { STREAM, type Events } from './choices.ts';

export async function transcriptions(exchange: Exchange): Promise<void> {
  const call = parseTranscription(await readForm(exchange));
  refuseFile(call.request);
  const events = eventsOf(exchange, call);
  if (call.stream) return answerStream(exchange, events);
  const answer = await Collector.of(events);
  const { reply } = exchange;
  if (call.format === 'text') reply.text(200, `${answer.text}\n`);
  else reply.json(200, toTranscript(answer, call));
}

/** Sends nothing before the first text or heartbeat, as for chat completions. */
async function answerStream({ reply }: Exchange, events: Events): Promise<void> {
  reply.stream(STREAM);
  const answer = new Collector();
  for await (const event of events) {
    answer.add(event);
    if (event.type === 'text') await reply.write(sseData(toTranscriptDelta(event.text)));
  }
  await reply.write(sseData(toTranscriptDone(answer)));
  reply.end();
}

/** The events of the generation. An error names the caller's field: the model, if it does not hear, or the file. */
async function* eventsOf(exchange: Exchange, { request }: TranscriptionCall): Events {
  const { services } = exchange;
  try {
    yield* services.router.route(request, contextOf(exchange));
  } catch (error) {
    if (!(error instanceof SvcError) || error.param !== SOUND) throw error;
    const model = listedNamed(request.model ?? DEFAULT_NAME, await listedModels(exchange));
    throw renamed(error, SOUND, model?.capabilities.includes('audio') === false ? 'model' : 'file');
  }
}
