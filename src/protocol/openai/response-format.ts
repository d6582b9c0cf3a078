/** Converts `response_format`, and llama-server's `json_schema` and `grammar`, to our `format`. */
import * as v from 'valibot';
import { FormatSchema, LIMITS, type Format } from '../generate.ts';
import { invalid, parse, type FieldNames } from '../validate.ts';

export interface OpenAiFormat {
  readonly format: Format;
  /** Name of the field that errors about the format refer to. */
  readonly names: FieldNames;
}

const jsonSchema = v.record(v.string(), v.unknown());

export const ResponseFormatSchema = v.variant('type', [
  v.object({ type: v.literal('text') }),
  /** `schema` is llama-server's. */
  v.object({ type: v.literal('json_object'), schema: v.nullish(jsonSchema) }),
  v.object({
    type: v.literal('json_schema'),
    json_schema: v.object({
      schema: jsonSchema,
      name: v.nullish(v.pipe(v.string(), v.maxLength(LIMITS.toolNameLength))),
      strict: v.nullish(v.boolean()),
    }),
  }),
]);

/** null: unconstrained text. Expects `fields` without nulls. Throws INVALID_REQUEST. */
export function formatOf(fields: Readonly<Record<string, unknown>>): OpenAiFormat | null {
  const { response_format: response, json_schema: schema, grammar } = fields;
  const formats = [
    response === undefined ? null : ofResponse(parse(ResponseFormatSchema, response, 'response_format')),
    schema === undefined ? null : ofSchema(parse(jsonSchema, schema, 'json_schema'), 'json_schema'),
    grammar === undefined || grammar === '' ? null : ofGrammar(grammar),
  ].filter((format) => format !== null);
  const [format = null, other] = formats;
  if (other !== undefined) throw invalid(other.names.theirs, `cannot be combined with ${format?.names.theirs ?? ''}`);
  return format;
}

function ofResponse(response: v.InferOutput<typeof ResponseFormatSchema>): OpenAiFormat | null {
  switch (response.type) {
    case 'text':
      return null;
    case 'json_object':
      if (response.schema) return ofSchema(response.schema, 'response_format.schema');
      return { format: { type: 'json_object' }, names: { ours: 'format', theirs: 'response_format' } };
    case 'json_schema': {
      const { schema, name, strict } = response.json_schema;
      const { format, names } = ofSchema(schema, 'response_format.json_schema.schema');
      // null means absent here too.
      const more = {
        ...(typeof name === 'string' ? { name } : {}),
        ...(typeof strict === 'boolean' ? { strict } : {}),
      };
      return { format: { ...format, ...more }, names };
    }
  }
}

function ofSchema(schema: Record<string, unknown>, theirs: string): OpenAiFormat {
  return { format: { type: 'json_schema', schema }, names: { ours: 'format.schema', theirs } };
}

function ofGrammar(grammar: unknown): OpenAiFormat {
  return {
    format: parse(FormatSchema, { type: 'grammar', grammar }),
    names: { ours: 'format.grammar', theirs: 'grammar' },
  };
}
