/** Converts the messages and pictures of Ollama's requests to ours. */
import * as v from 'valibot';
import { ContentPartSchema, ToolCallSchema, type ContentPart, type Message } from '../generate.ts';
import { given } from '../given.ts';
import { OpenCalls, type OpenCall } from '../history/open-calls.ts';
import { LIMITS } from '../limits.ts';
import { imageType, soundType } from '../media-type.ts';
import { invalid } from '../validate.ts';

const { name } = ToolCallSchema.entries;
/** Empty: none. */
const id = v.exactOptional(v.pipe(v.string(), v.maxLength(LIMITS.toolCallIdLength)), '');

/** Each as base64. */
export const ImagesSchema = v.pipe(v.array(v.string()), v.maxLength(LIMITS.contentParts));

export const OllamaMessageSchema = v.object({
  role: v.picklist(['system', 'user', 'assistant', 'tool']),
  content: v.exactOptional(v.string(), ''),
  thinking: v.exactOptional(v.string()),
  images: v.exactOptional(ImagesSchema, []),
  tool_calls: v.exactOptional(
    v.pipe(
      v.array(
        v.object({
          id,
          function: v.object({ name, arguments: v.exactOptional(v.record(v.string(), v.unknown()), {}) }),
        }),
      ),
      v.maxLength(LIMITS.tools),
    ),
    [],
  ),
  /** `tool` messages only: the tool whose result this is, or the id of its call. */
  tool_name: v.exactOptional(v.pipe(v.string(), v.maxLength(LIMITS.toolNameLength))),
  tool_call_id: id,
});
export type OllamaMessage = v.InferOutput<typeof OllamaMessageSchema>;

/** Throws INVALID_REQUEST with `param`. */
export function toMessages(messages: readonly OllamaMessage[]): Message[] {
  const open = new OpenCalls();
  return messages.flatMap((message, index): Message[] => {
    const param = `messages[${String(index)}]`;
    const { role, thinking, tool_calls, tool_name } = message;
    if (role !== 'assistant') open.endTurn();
    if (tool_calls.length > 0 && role !== 'assistant')
      throw invalid(`${param}.tool_calls`, 'may be in assistant messages only');
    const content = contentOf(message.content, message.images, param);
    if (role === 'tool') {
      const answered = answeredBy(message, open);
      if (answered !== undefined) {
        open.close(answered);
        return [{ role, content, tool_call_id: answered.id }];
      }
      // Clients cut the beginning off a long history, or keep its texts only, and the call is lost.
      const lost = tool_name === undefined || tool_name === '' ? 'tool' : tool_name;
      const call = open.add({ id: '', name: lost, arguments: '{}' });
      open.close(call);
      return [
        { role: 'assistant', content: '', tool_calls: [call] },
        { role, content, tool_call_id: call.id },
      ];
    }
    const opened = tool_calls.map(({ id: known, function: called }) =>
      open.add({ id: known, name: called.name, arguments: JSON.stringify(called.arguments) }),
    );
    return [
      {
        role,
        content,
        ...given({ reasoning: role === 'assistant' ? thinking : undefined }),
        ...(opened.length === 0 ? {} : { tool_calls: opened }),
      },
    ];
  });
}

/** The call that a message answers: by its id, else the first of its tool, else the first. undefined: none is open. */
function answeredBy({ tool_name = '', tool_call_id }: OllamaMessage, open: OpenCalls): OpenCall | undefined {
  return open.withId(tool_call_id) ?? open.firstOf(tool_name) ?? open.first;
}

/** The pictures first, as Ollama puts them before the text. Throws INVALID_REQUEST with `param`. */
export function contentOf(text: string, images: readonly string[], param: string): Message['content'] {
  if (images.length === 0) return text;
  const parts = images.map((data, index) => toPart(data, `${param}${param === '' ? '' : '.'}images[${String(index)}]`));
  return text === '' ? parts : [...parts, { type: 'text', text }];
}

/** Enough base64 for the first bytes, by which the type is found. */
const HEAD_CHARACTERS = 32;

function toPart(base64: string, param: string): ContentPart {
  // Encoders break lines, and Ollama's decoder skips the breaks.
  const data = base64.replace(/[\r\n]/g, '');
  const head = Buffer.from(data.slice(0, HEAD_CHARACTERS), 'base64');
  const image = imageType(head);
  const part =
    image === undefined
      ? { type: 'audio', media_type: soundType(head), data }
      : { type: 'image', media_type: image, data };
  if (!v.is(ContentPartSchema, part))
    throw invalid(param, 'must be base64 of a PNG, JPEG, GIF or WebP picture, or of a WAV, MP3 or FLAC sound');
  return part;
}
