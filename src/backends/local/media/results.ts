/**
 * Pictures and sounds in the results of tools that a local model cannot take become texts. An agent put them there and
 * sends them with every later request, so that an error would end the conversation. Those in a user's own messages are
 * left as they are, and refused by name.
 */
import type { EngineInfo } from '../../../engine/addon.ts';
import type { ContentPart, Message } from '../../../protocol/generate.ts';
import { LIMITS } from '../../../protocol/limits.ts';

/** Parts replaced at a time, if there are too many: each replacement invalidates the cached prefix behind it. */
const STEP = LIMITS.media / 2;

type Replace = (part: ContentPart) => string | null;

/** Replaces what no local model can take: pictures by URL, and the earliest of too many pictures and sounds. */
export function withSendableResults(messages: readonly Message[]): readonly Message[] {
  const parts = messages.flatMap(({ content }) => (typeof content === 'string' ? [] : content));
  const excess = parts.filter(({ type }) => type === 'image' || type === 'audio').length - LIMITS.media;
  let older = Math.ceil(Math.max(0, excess) / STEP) * STEP;
  return inResults(messages, ({ type }) => {
    if (type === 'image_url') return '[a picture by URL, which svc does not fetch]';
    if (type === 'text' || older === 0) return null;
    older -= 1;
    return type === 'image' ? '[an earlier picture, left out]' : '[an earlier sound, left out]';
  });
}

/** Replaces what a model with this `info` cannot take; `messages` itself if there is nothing of the kind. */
export function withTakenResults(
  messages: readonly Message[],
  { sees, hears }: Pick<EngineInfo, 'sees' | 'hears'>,
): readonly Message[] {
  return inResults(messages, (part) => {
    const isSeen = sees && !(part.type === 'image' && part.media_type === 'image/webp');
    if (part.type === 'image' && !isSeen) return '[a picture that this model cannot see]';
    return part.type === 'audio' && !hears ? '[a sound that this model cannot hear]' : null;
  });
}

/** Each part keeps its index, which errors name. */
function inResults(messages: readonly Message[], replace: Replace): readonly Message[] {
  const replaced = messages.map((message) => {
    const { role, content } = message;
    if (role !== 'tool' || typeof content === 'string') return message;
    const texts = content.map(replace);
    if (texts.every((text) => text === null)) return message;
    const parts = content.map((part, index): ContentPart => {
      const text = texts[index] ?? null;
      return text === null ? part : { type: 'text', text };
    });
    return { ...message, content: parts };
  });
  return replaced.every((message, index) => message === messages[index]) ? messages : replaced;
}
