/**
 * `POST /v1/audio/transcriptions`: converts OpenAI's form to a chat with the sound and a fixed instruction, and its
 * answer to a transcript. Unknown fields are ignored, and an empty one is absent.
 */
import * as v from 'valibot';
import type { Collector } from '../collect.ts';
import { SvcError } from '../errors.ts';
import {
  GenerateRequestSchema,
  SamplingSchema,
  type AudioPart,
  type GenerateRequest,
  type Usage,
} from '../generate.ts';
import { given } from '../given.ts';
import { LIMITS } from '../limits.ts';
import { DEFAULT_NAME } from '../model/named.ts';
import { routedOf, toFinishReason } from './completion-response.ts';
import { invalid, parse } from '../validate.ts';
import { soundType } from '../media-type.ts';

/** A part of a form: a text, or the bytes of a file. */
export interface FormField {
  readonly name: string;
  readonly value: string | Buffer;
}

/** Without `file`. */
export const TranscriptionFieldsSchema = v.object({
  model: GenerateRequestSchema.entries.model,
  /** ISO 639, with a region or script. */
  language: v.exactOptional(v.pipe(v.string(), v.regex(/^[a-z]{2,3}(-[a-z]{2}|-[a-z]{4})?$/i))),
  prompt: v.exactOptional(v.pipe(v.string(), v.maxLength(LIMITS.transcriptionPromptLength))),
  response_format: v.exactOptional(v.picklist(['json', 'text', 'verbose_json']), 'json'),
  temperature: v.exactOptional(
    v.pipe(v.string(), v.transform(Number), SamplingSchema.entries.temperature.wrapped),
    '0',
  ),
  stream: v.exactOptional(
    v.pipe(
      v.picklist(['true', 'false']),
      v.transform((text) => text === 'true'),
    ),
    'false',
  ),
});

export interface TranscriptionCall {
  readonly request: GenerateRequest;
  readonly format: v.InferOutput<typeof TranscriptionFieldsSchema>['response_format'];
  /** As requested. null: the model was to recognize it. */
  readonly language: string | null;
  readonly stream: boolean;
}

/** Place of the sound in the request. */
export const SOUND = 'messages[0].content[0]';
const INSTRUCTION = 'Transcribe the recording word for word. Answer with the transcript only.';
const UNSUPPORTED = [
  'timestamp_granularities',
  'include',
  'chunking_strategy',
  'known_speaker_names',
  'known_speaker_references',
];

/** Throws INVALID_REQUEST or REQUEST_TOO_LARGE with `param`. */
export function parseTranscription(form: readonly FormField[]): TranscriptionCall {
  const fields = form.filter(({ value }) => value !== '');
  for (const name of UNSUPPORTED) {
    if (fields.some((field) => field.name === name || field.name.startsWith(`${name}[`)))
      throw invalid(name, 'is not supported');
  }
  const file = theOne('file', fields);
  const names = Object.keys(TranscriptionFieldsSchema.entries);
  const texts = given(Object.fromEntries(names.map((name) => [name, theOne(name, fields)])));
  if (texts['response_format'] === 'srt' || texts['response_format'] === 'vtt')
    throw invalid('response_format', 'must be json, text or verbose_json: transcripts have no timestamps');
  const { model, language, prompt, response_format, temperature, stream } = parse(TranscriptionFieldsSchema, texts);
  if (stream && response_format === 'verbose_json')
    throw invalid('response_format', 'must be json or text in a stream');
  return {
    request: {
      messages: [{ role: 'user', content: [toSound(file), { type: 'text', text: instructionOf(language, prompt) }] }],
      sampling: { temperature },
      stop: [],
      reasoning_effort: 'none',
      ...given({ model: model === DEFAULT_NAME ? undefined : model }),
    },
    format: response_format,
    language: language ?? null,
    stream,
  };
}

function theOne(name: string, fields: readonly FormField[]): string | Buffer | undefined {
  const [first, second] = fields.filter((field) => field.name === name);
  if (second !== undefined) throw invalid(name, 'must be in the form only once');
  return first?.value;
}

function toSound(file: string | Buffer | undefined): AudioPart {
  if (file === undefined) throw invalid('file', 'is required');
  if (typeof file === 'string') throw invalid('file', 'must be a part with a file name');
  const { mediaBytes } = LIMITS;
  if (file.length > mediaBytes) {
    throw new SvcError('REQUEST_TOO_LARGE', `file has more than ${String(mediaBytes)} bytes`, { param: 'file' });
  }
  const media_type = soundType(file);
  if (media_type === undefined) throw invalid('file', 'must be a WAV, MP3 or FLAC file');
  return { type: 'audio', media_type, data: file.toString('base64') };
}

function instructionOf(language: string | undefined, prompt: string | undefined): string {
  const name = language === undefined ? undefined : new Intl.DisplayNames(['en'], { type: 'language' }).of(language);
  return [
    INSTRUCTION,
    ...(name === undefined ? [] : [`The language is ${name}.`]),
    ...(prompt === undefined ? [] : [`The transcript continues this text, in its spelling and style:\n${prompt}`]),
  ].join('\n');
}

/** The answer in `json` or `verbose_json`. Throws CANCELLED for a cancelled one. */
export function toTranscript(answer: Collector, { format, language }: TranscriptionCall): object {
  return {
    // null: not known.
    ...(format === 'verbose_json' ? { task: 'transcribe', language, duration: null } : {}),
    ...textOf(answer),
    ...routedOf(answer),
    timings: answer.finish.timings,
  };
}

export function toTranscriptDelta(text: string): object {
  return { type: 'transcript.text.delta', delta: text };
}

/** The last event of a stream. Throws CANCELLED for a cancelled answer. */
export function toTranscriptDone(answer: Collector): object {
  return { type: 'transcript.text.done', ...textOf(answer), ...routedOf(answer), timings: answer.finish.timings };
}

function textOf({ text, start, finish }: Collector): object {
  const { usage } = finish;
  return {
    text,
    model: start.model,
    // `length`: the transcript is incomplete. Our extension.
    finish_reason: toFinishReason(finish),
    ...(usage === null ? {} : { usage: toUsage(usage) }),
  };
}

function toUsage({ input_tokens, output_tokens }: Usage): object {
  return { type: 'tokens', input_tokens, output_tokens, total_tokens: input_tokens + output_tokens };
}
