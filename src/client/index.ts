/**
 * What `import … from 'svc-runtime'` gives an application: the client, its one error class, and the types of requests,
 * answers and records. Described in docs/client.md.
 */
export type { Answer } from './answer.ts';
export {
  Client,
  type CallOptions,
  type ChatRequest,
  type ClientOptions,
  type ContentPart,
  type EmbedCall,
  type Format,
  type GenerateCall,
  type Lora,
  type Message,
  type RerankCall,
  type Sampling,
  type Tool,
} from './client.ts';
export type { EmbedResult } from '../protocol/embed.ts';
export { SvcError, type ErrorCode, type ErrorRecord } from '../protocol/errors.ts';
export type {
  AnswerEvent,
  FinishEvent,
  FinishReason,
  GenerateResult,
  ReasoningEvent,
  Repetition,
  Route,
  RouteAttempt,
  RouteEvent,
  StartEvent,
  TextEvent,
  Timings,
  TokenLogprob,
  TokenLogprobs,
  ToolCall,
  ToolCallEvent,
  Usage,
} from '../protocol/generate.ts';
export type { Capability, Condition, HealthRecord, ModelRecord } from '../protocol/records.ts';
export type { RankedDocument, RerankResult } from '../protocol/rerank.ts';
