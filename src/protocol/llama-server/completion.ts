/** `POST /completion`, llama-server's own: converts its format to a request with a raw prompt. */
import * as v from 'valibot';
import { promptsOf } from '../openai/completions.ts';
import { readFields } from '../openai/shared-fields.ts';
import { invalid, parse } from '../validate.ts';
import { ANSWER_FIELDS, toCall, UNSUPPORTED, type LlamaCall } from './call.ts';

/** Without the prompt, whose size is checked before its parts are. */
export const LlamaCompletionSchema = v.object(ANSWER_FIELDS);

/** Throws INVALID_REQUEST with `param`. */
export function parseLlamaCompletion(body: unknown): LlamaCall {
  const fields = readFields(body, UNSUPPORTED);
  const [raw, other] = promptsOf(fields['prompt']);
  if (raw === undefined || other !== undefined)
    throw invalid('prompt', 'must be one text or one list of token ids: use /v1/completions for several prompts');
  return toCall(parse(LlamaCompletionSchema, fields), fields, raw);
}
