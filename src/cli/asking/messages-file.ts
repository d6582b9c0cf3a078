/**
 * `--messages FILE`: the messages before the prompt, as OpenAI's API has them. Tool calls may also have the form in
 * which `svc run` prints them.
 */
import * as v from 'valibot';
import { ToolCallSchema, type Message } from '../../protocol/generate.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { toMessage, type WireMessage } from '../../protocol/openai/messages.ts';
import { parse } from '../../protocol/validate.ts';
import { readJsonFile } from './json-file.ts';

const FileSchema = v.object({
  messages: v.pipe(
    v.array(v.looseObject({ role: v.picklist(['system', 'developer', 'user', 'assistant', 'tool']) })),
    v.minLength(1),
    v.maxLength(LIMITS.messages),
  ),
});
const HINT = 'a list of messages: [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]';

/** Throws INPUT_INVALID with the place in the file. */
export async function readMessages(file: string): Promise<Message[]> {
  return await readJsonFile(file, HINT, (messages) =>
    parse(FileSchema, { messages }).messages.map((message, index) => toMessage(asOnTheWire(message), index)),
  );
}

function asOnTheWire(message: WireMessage): WireMessage {
  const { tool_calls: calls } = message;
  if (!Array.isArray(calls)) return message;
  return { ...message, tool_calls: calls.map(toWireCall) };
}

function toWireCall(call: unknown): unknown {
  if (!v.is(ToolCallSchema, call)) return call;
  const { id, ...called } = call;
  return { id, type: 'function', function: called };
}
