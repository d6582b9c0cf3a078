/** Bodies of all other APIs. */
import { parseRerank } from '../../../src/protocol/cohere/rerank.ts';
import { GenerateRequestSchema } from '../../../src/protocol/generate.ts';
import { parseInfill } from '../../../src/protocol/llama-server/infill.ts';
import { parseLlamaCompletion } from '../../../src/protocol/llama-server/completion.ts';
import { parseDetokenize, parseTokenize } from '../../../src/protocol/llama-server/tokenize.ts';
import { parseCompletion } from '../../../src/protocol/openai/completions.ts';
import { parseEmbeddings } from '../../../src/protocol/openai/embeddings.ts';
import { parse } from '../../../src/protocol/validate.ts';
import { CALLS, grouped, list, type LargeBody } from './large-body.ts';

export const OTHERS: readonly LargeBody[] = [
  {
    name: 'svc, results by id',
    most: 9900,
    make: (size) => ({
      messages: [
        ...grouped(
          list(size, (index) => ({ id: `c${String(index)}`, name: 'a', arguments: '{}' })),
          CALLS,
        ).map((tool_calls) => ({ role: 'assistant', content: '', tool_calls })),
        ...list(size, (index) => ({ role: 'tool', content: '', tool_call_id: `c${String(index)}` })),
      ],
    }),
    read: (body) => parse(GenerateRequestSchema, body),
  },
  {
    name: 'completions, tokens',
    most: 81_920,
    make: (size) => ({ prompt: list(64, () => list(size / 64, () => 1)) }),
    read: (body) => parseCompletion(body),
  },
  {
    name: 'embeddings, texts',
    most: 2048,
    make: (size) => ({ input: list(size, () => 'a') }),
    read: (body) => parseEmbeddings(body),
  },
  {
    name: 'embeddings, tokens',
    most: 81_920,
    make: (size) => ({ input: list(1024, () => list(size / 1024, () => 1)) }),
    read: (body) => parseEmbeddings(body),
  },
  {
    name: 'rerank, documents',
    most: 1000,
    make: (size) => ({ query: 'a', documents: list(size, () => ({ text: 'a' })) }),
    read: (body) => parseRerank(body),
  },
  {
    name: 'tokenize, a text',
    most: 1_000_000,
    make: (size) => ({ content: 'ĕ'.repeat(size) }),
    read: (body) => parseTokenize(body),
  },
  {
    name: 'detokenize, tokens',
    most: 81_920,
    make: (size) => ({ tokens: list(size, () => 1) }),
    read: (body) => parseDetokenize(body),
  },
  {
    name: 'infill, other files',
    most: 256,
    make: (size) => ({
      input_prefix: '',
      input_suffix: '',
      input_extra: list(size, (index) => ({ filename: String(index), text: 'a' })),
    }),
    read: (body) => parseInfill(body).request,
  },
  {
    name: 'completion, tokens',
    most: 81_920,
    make: (size) => ({ prompt: list(size, () => 1) }),
    read: (body) => parseLlamaCompletion(body).request,
  },
];
