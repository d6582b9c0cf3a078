/**
 * Attributes of requests to models, by OpenTelemetry's semantic conventions for generative AI (status: Development).
 * They hold numbers, and names that the daemon knows: no text of a client.
 */
import type { FinishEvent, GenerateRequest } from '../generate.ts';
import type { Attributes, Span } from './span.ts';

export type Operation = 'chat' | 'text_completion' | 'embeddings' | 'rerank' | 'tokenize';

/** What a request of any kind may have. */
export type TracedRequest = Partial<Pick<GenerateRequest, 'sampling' | 'max_tokens' | 'format'>>;

/** Providers that have another name in the conventions than in the catalogue. Others keep theirs. */
const CONVENTIONAL: Readonly<Record<string, string>> = {
  gemini: 'gcp.gemini',
  azure: 'azure.ai.openai',
  bedrock: 'aws.bedrock',
  mistral: 'mistral_ai',
  xai: 'x_ai',
  local: 'svc',
};

export function operationAttributes(operation: Operation): Attributes {
  return { 'gen_ai.operation.name': operation };
}

/** `name`: name of a provider, from the catalogue or the config. */
export function providerAttributes(name: string): Attributes {
  return { 'gen_ai.provider.name': CONVENTIONAL[name] ?? name };
}

export function requestAttributes({ sampling, max_tokens, format }: TracedRequest): Attributes {
  return {
    'gen_ai.request.max_tokens': max_tokens,
    'gen_ai.request.temperature': sampling?.temperature,
    'gen_ai.request.top_p': sampling?.top_p,
    'gen_ai.request.top_k': sampling?.top_k,
    'gen_ai.request.frequency_penalty': sampling?.frequency_penalty,
    'gen_ai.request.presence_penalty': sampling?.presence_penalty,
    'gen_ai.request.seed': sampling?.seed,
    'gen_ai.output.type': format === undefined || format.type === 'grammar' ? undefined : 'json',
  };
}

/**
 * Names the model of a span. REQUIRES: a backend has begun to answer under this name. Before that it may be any text.
 * `asked`: the name in the request. Absent: the default.
 */
export function nameModel(span: Span, operation: Operation, answering: string, asked: string = answering): void {
  const [request, response] = [asked, answering].map(withoutPath);
  span.rename(`${operation} ${request ?? ''}`);
  span.set({ 'gen_ai.request.model': request, 'gen_ai.response.model': response });
}

/** Adds the end of an answer: a request may have several. */
export function addFinish(span: Span, operation: Operation, { reason, usage }: FinishEvent): void {
  if (operation === 'chat' || operation === 'text_completion') {
    span.append('gen_ai.response.finish_reasons', reason);
  }
  if (usage === null) return;
  span.add('gen_ai.usage.input_tokens', usage.input_tokens);
  span.add('gen_ai.usage.output_tokens', usage.output_tokens);
  if (usage.cached_tokens > 0) span.add('gen_ai.usage.cache_read.input_tokens', usage.cached_tokens);
}

/** A model may be given as a file, on the control socket. */
function withoutPath(name: string): string {
  return name.startsWith('file:') || name.startsWith('/') ? 'file' : name;
}
