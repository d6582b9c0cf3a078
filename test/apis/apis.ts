/** All APIs whose fields are declared, in the order of docs/apis.md. */
import { BETA_MESSAGES, COUNT_TOKENS, MESSAGES } from './anthropic.ts';
import { CHAT } from './openai-chat.ts';
import { COMPLETIONS, EMBEDDINGS, TRANSCRIPTIONS } from './openai.ts';
import { RERANK_JINA, RERANK_V1, RERANK_V2 } from './cohere.ts';
import { RESPONSE_ITEMS, RESPONSE_SHOWN, RESPONSE_TOKENS, RESPONSES } from './responses.ts';
import type { Api } from './declare.ts';
import { APPLY_TEMPLATE, DETOKENIZE, INFILL, PROPS, TOKENIZE } from './llama-server.ts';
import { OLLAMA_COPY, OLLAMA_CREATE, OLLAMA_DELETE, OLLAMA_PULL, OLLAMA_SHOW } from './ollama-models.ts';
import { OLLAMA_CHAT, OLLAMA_EMBED, OLLAMA_EMBEDDINGS, OLLAMA_GENERATE } from './ollama.ts';

export const APIS: readonly Api[] = [
  CHAT,
  COMPLETIONS,
  RESPONSES,
  RESPONSE_TOKENS,
  RESPONSE_SHOWN,
  RESPONSE_ITEMS,
  EMBEDDINGS,
  TRANSCRIPTIONS,
  MESSAGES,
  COUNT_TOKENS,
  BETA_MESSAGES,
  OLLAMA_CHAT,
  OLLAMA_GENERATE,
  OLLAMA_EMBED,
  OLLAMA_EMBEDDINGS,
  OLLAMA_SHOW,
  OLLAMA_PULL,
  OLLAMA_CREATE,
  OLLAMA_COPY,
  OLLAMA_DELETE,
  RERANK_V1,
  RERANK_V2,
  RERANK_JINA,
  TOKENIZE,
  DETOKENIZE,
  APPLY_TEMPLATE,
  INFILL,
  PROPS,
];
