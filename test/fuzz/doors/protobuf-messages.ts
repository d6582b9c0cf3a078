/** Requests for every gRPC method, generated from the definitions: valid and damaged. */
import { protoPath as healthProtoPath } from 'grpc-health-check';
import { Definitions } from '../../../src/grpc/definitions.ts';
import type { Random } from '../random.ts';
import { damaged, once, randomBytes } from './bytes.ts';

const definitions = new Definitions([healthProtoPath]);

export interface FuzzedMethod {
  readonly path: string;
  /** Full name of the request message. */
  readonly type: string;
}

const REFLECTION = ['v1', 'v1alpha'].map((version) => ({
  path: `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
  type: '',
}));

export const METHODS: readonly FuzzedMethod[] = [
  ...['svc.v1.Runtime', 'svc.v1.Inference', 'grpc.health.v1.Health'].flatMap((service) => {
    const scope = service.slice(0, service.lastIndexOf('.') + 1);
    return Object.values(definitions.service(service)).map(({ path, requestType }) => ({
      path,
      type: scope + (requestType.type as { readonly name: string }).name,
    }));
  }),
  ...REFLECTION,
];

/** Valid requests, by message. */
export const VALID: Readonly<Record<string, readonly Buffer[]>> = {
  'svc.v1.GenerateRequest': encoded('svc.v1.GenerateRequest', [
    { messages: [{ role: 'user', content: 'hi' }], max_tokens: 1 },
    {
      messages: [{ role: 'user', content: 'hi' }],
      max_tokens: 1,
      format: { type: 'json_schema', schema: '{"a":[{}]}' },
    },
    {
      messages: [
        { role: 'user', parts: [{ text: 'a' }, { image: { media_type: 'image/png', data: Buffer.from('b') } }] },
      ],
      max_tokens: 1,
      stop: ['x'],
      sampling: { seed: 1, top_p: 0.5, mirostat: 2, dry_sequence_breakers: ['a'], logit_bias: [{ token: 1, bias: 2 }] },
      store: false,
      chat_template_kwargs: '{"a":[{"b":null}]}',
      reasoning_budget_tokens: 1,
    },
    {
      messages: [{ role: 'tool', content: 'a', tool_call_id: 'b' }],
      max_tokens: 1,
      tools: [{ name: 'c', parameters: '{}' }],
    },
  ]),
  'svc.v1.EmbedRequest': encoded('svc.v1.EmbedRequest', [
    { input: [{ text: 'a' }, { tokens: { ids: [1, 2] } }], dimensions: 4, truncate: true, keep_alive_seconds: -1 },
    { model: 'tiny', input: [{ text: '' }], route: 'local', context_length: 1 },
  ]),
  'svc.v1.RerankRequest': encoded('svc.v1.RerankRequest', [
    { query: 'a', documents: ['b', ''], top_n: 1, truncate: true, max_document_tokens: 8, keep_alive_seconds: 60 },
    { model: 'tiny', query: 'a', documents: ['b'], route: 'local', context_length: 1 },
  ]),
};

function encoded(type: string, requests: readonly object[]): Buffer[] {
  return requests.map((request) => definitions.encode(type, request));
}

const TEXTS: readonly string[] = [
  ...[
    '',
    'user',
    'assistant',
    'tool',
    'system',
    'local',
    'cloud',
    'provider:x',
    'provider:__proto__',
    'file:/etc/passwd',
  ],
  ...['json_object', 'json_schema', 'grammar', 'auto', 'batch', 'interactive', 'tiny', '*', '../..', '\0', '\u202e'],
  ...[
    '{"type":"object"}',
    '[[[[[[[[',
    '{"a":',
    'root ::= "a"',
    'https://a.example/b.png',
    'image/png',
    'svc.v1.Inference',
  ],
];

/** A random request, mostly valid in the wire format. */
export function requestBytes(random: Random, type = random.of(METHODS).type): Buffer {
  if (type === '' || once(random, 12)) return randomBytes(random, 40);
  const valid = VALID[type] ?? [];
  const made = valid.length > 0 && once(random, 3) ? random.of(valid) : grown(random, type, 3);
  return once(random, 3) ? damaged(random, made) : made;
}

/** A random message: random fields with random values, possibly repeated. */
function grown(random: Random, type: string, depth: number): Buffer {
  const fields = definitions.fields(type);
  if (fields.length === 0) return once(random, 4) ? randomBytes(random, 10) : Buffer.alloc(0);
  const parts = Array.from({ length: random.below(6) }, () => {
    const { number, message, type: kind } = random.of(fields);
    if (message !== null) return depth === 0 ? Buffer.alloc(0) : delimited(number, grown(random, message, depth - 1));
    switch (kind) {
      case 'TYPE_STRING':
        return delimited(number, once(random, 8) ? randomBytes(random, 10) : Buffer.from(random.of(TEXTS)));
      case 'TYPE_BYTES':
        return delimited(number, randomBytes(random, 20));
      case 'TYPE_DOUBLE': {
        const bytes = Buffer.alloc(8);
        bytes.writeDoubleLE(random.of([0, -0, 0.5, 1, -1, 1e308, Infinity, NaN, 2 ** 53]));
        return Buffer.concat([tag(number, 1), bytes]);
      }
      default:
        return once(random, 8)
          ? delimited(number, randomBytes(random, 10))
          : Buffer.concat([tag(number, 0), varint(random.of([0, 1, 2, 127, 128, 2 ** 31, 2 ** 32 - 1, 2 ** 53]))]);
    }
  });
  return Buffer.concat(parts);
}

function tag(number: number, wireType: number): Buffer {
  return varint(number * 8 + wireType);
}

function delimited(number: number, bytes: Buffer): Buffer {
  return Buffer.concat([tag(number, 2), varint(bytes.length), bytes]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  return Buffer.from([...bytes, rest]);
}
