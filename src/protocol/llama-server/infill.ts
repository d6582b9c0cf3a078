/** `POST /infill`: converts llama-server's format, which editors use to complete code, to a request with a gap. */
import * as v from 'valibot';
import { LIMITS } from '../limits.ts';
import { readFields } from '../openai/shared-fields.ts';
import { parse } from '../validate.ts';
import { ANSWER_FIELDS, toCall, UNSUPPORTED, type LlamaCall } from './call.ts';

export const InfillSchema = v.object({
  ...ANSWER_FIELDS,
  input_prefix: v.string(),
  input_suffix: v.string(),
  input_extra: v.exactOptional(
    v.pipe(
      v.array(v.object({ filename: v.nullish(v.string(), 'tmp'), text: v.string() })),
      v.maxLength(LIMITS.infillFiles),
    ),
    [],
  ),
  prompt: v.exactOptional(v.string(), ''),
});

/** Throws INVALID_REQUEST with `param`. */
export function parseInfill(body: unknown): LlamaCall {
  const fields = readFields(body, UNSUPPORTED);
  const call = parse(InfillSchema, fields);
  return toCall(call, fields, {
    text: call.prompt,
    infill: { prefix: call.input_prefix, suffix: call.input_suffix, extra: call.input_extra },
  });
}
