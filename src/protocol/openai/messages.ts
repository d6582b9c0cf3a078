/** Converts the messages of OpenAI's chat completions to ours. */
import * as v from 'valibot';
import {
  ContentPartSchema,
  ToolCallSchema,
  type AudioPart,
  type ContentPart,
  type Message,
  type ToolCall,
} from '../generate.ts';
import { LIMITS } from '../limits.ts';
import { invalid, parse } from '../validate.ts';

export interface WireMessage {
  readonly role: 'system' | 'developer' | 'user' | 'assistant' | 'tool';
  readonly content?: unknown;
  readonly [field: string]: unknown;
}

const { id, name } = ToolCallSchema.entries;
const WireToolCallsSchema = v.pipe(
  v.array(
    v.variant('type', [
      v.object({ id, type: v.literal('function'), function: v.object({ name, arguments: v.string() }) }),
      /** In the history of a client that has changed to svc. */
      v.object({ id, type: v.literal('custom'), custom: v.object({ name, input: v.string() }) }),
    ]),
  ),
  v.maxLength(LIMITS.tools),
);
/** There may be parameters, such as a character set, before the encoding. */
const DATA_URL = /^data:([^;,]{1,64})(?:;[^;,]{1,64}){0,8};base64,/;

/** Throws INVALID_REQUEST with `param`. */
export function toMessage(message: WireMessage, index: number): Message {
  const param = `messages[${String(index)}]`;
  const role = message.role === 'developer' ? 'system' : message.role;
  const calls = toToolCalls(message['tool_calls'], param);
  const answered = message['tool_call_id'];
  const reasoning = message['reasoning_content'];
  const deprecated = message['function_call'];
  if (deprecated !== undefined && deprecated !== null)
    throw invalid(`${param}.function_call`, 'is not supported: use tool_calls');
  // An answer that was refused has the refusal in place of its content.
  const content = message.content ?? message['refusal'] ?? message.content;
  const isAssistant = role === 'assistant';
  const thoughts = isAssistant && typeof reasoning === 'string' ? { reasoning } : {};
  const mayLack = calls.length > 0 || thoughts.reasoning !== undefined;
  return {
    role,
    content:
      isAssistant && (content === null || (content === undefined && mayLack))
        ? ''
        : toContent(content, `${param}.content`),
    ...thoughts,
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
    ...(role === 'tool' && typeof answered === 'string' ? { tool_call_id: answered } : {}),
  };
}

function toToolCalls(calls: unknown, param: string): ToolCall[] {
  if (calls === undefined || calls === null) return [];
  const { tool_calls } = parse(v.object({ tool_calls: WireToolCallsSchema }), { tool_calls: calls }, param);
  return tool_calls.map((call) => {
    if (call.type === 'function') return { id: call.id, ...call.function };
    const { name: own, input } = call.custom;
    return { id: call.id, name: own, arguments: JSON.stringify({ input }) };
  });
}

function toContent(content: unknown, param: string): Message['content'] {
  if (typeof content === 'string') return content;
  if (content === undefined) throw invalid(param, 'is required');
  if (!Array.isArray(content)) throw invalid(param, 'must be a string or a list of parts');
  if (content.length > LIMITS.contentParts)
    throw invalid(param, `must have at most ${String(LIMITS.contentParts)} parts`);
  return joined((content as unknown[]).map((part, index) => toPart(part, `${param}[${String(index)}]`)));
}

/** Joins text-only parts with line breaks, like llama.cpp: no line break before the first part that is not empty. */
export function joined(parts: ContentPart[]): Message['content'] {
  if (!parts.every((part) => part.type === 'text')) return parts;
  return parts.reduce((text, part) => (text === '' ? part.text : `${text}\n${part.text}`), '');
}

function toPart(part: unknown, param: string): ContentPart {
  const given = (part ?? {}) as Readonly<Record<string, unknown>>;
  const { type, text, image_url: image, input_audio: audio } = given;
  switch (type) {
    case 'text':
      if (typeof text !== 'string') throw invalid(`${param}.text`, 'must be string');
      return { type, text };
    case 'refusal':
      if (typeof given['refusal'] !== 'string') throw invalid(`${param}.refusal`, 'must be string');
      return { type: 'text', text: given['refusal'] };
    case 'image_url': {
      // Ollama's clients write the URL alone.
      const url = typeof image === 'string' ? image : (image as { url?: unknown } | null | undefined)?.url;
      if (typeof url !== 'string') throw invalid(`${param}.image_url.url`, 'must be string');
      return toImage(url, `${param}.image_url.url`);
    }
    case 'input_audio':
      return toAudio(audio, `${param}.input_audio`);
    default:
      throw invalid(`${param}.type`, 'must be "text", "image_url" or "input_audio"; files are not supported');
  }
}

const AUDIO_TYPES: Readonly<Record<string, AudioPart['media_type']>> = {
  wav: 'audio/wav',
  mp3: 'audio/mpeg',
  flac: 'audio/flac',
};

/** `audio`: `{"data", "format"}`. Throws INVALID_REQUEST. */
export function toAudio(audio: unknown, param: string): ContentPart {
  const { format, data } = (audio ?? {}) as { format?: unknown; data?: unknown };
  const media_type = typeof format === 'string' && Object.hasOwn(AUDIO_TYPES, format) ? AUDIO_TYPES[format] : undefined;
  if (media_type === undefined) throw invalid(`${param}.format`, 'must be "wav", "mp3" or "flac"');
  const part = { type: 'audio', media_type, data };
  if (!v.is(ContentPartSchema, part)) throw invalid(`${param}.data`, `must be base64 of at most ${MOST} bytes`);
  return part;
}

const MOST = String(LIMITS.mediaBytes);

/** Throws INVALID_REQUEST. */
export function toImage(url: string, param: string): ContentPart {
  const [prefix, mediaType] = DATA_URL.exec(url) ?? [];
  const part =
    prefix === undefined
      ? { type: 'image_url', url }
      : {
          type: 'image',
          media_type: mediaType === 'image/jpg' ? 'image/jpeg' : mediaType,
          data: url.slice(prefix.length),
        };
  if (!v.is(ContentPartSchema, part)) {
    throw invalid(param, 'must be an https URL, or a data URL of a PNG, JPEG, GIF or WebP image in base64');
  }
  return part;
}
