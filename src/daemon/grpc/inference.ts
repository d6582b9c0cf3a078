/** svc.v1.Inference: converts messages to requests, and events to messages. */
import type { Definitions } from '../../grpc/definitions.ts';
import { fieldsOf } from '../../grpc/records.ts';
import { Collector, ranked } from '../../protocol/collect.ts';
import { parseEmbedRequest, type EmbedRequest } from '../../protocol/embed.ts';
import {
  asksForCall,
  GenerateRequestSchema,
  LIMITS,
  refuseFile,
  type AnswerEvent,
  type GenerateRequest,
  type TokenLogprob,
  type TokenLogprobs,
} from '../../protocol/generate.ts';
import { parseRerankRequest, type RerankRequest } from '../../protocol/rerank.ts';
import { invalid, parse } from '../../protocol/validate.ts';
import { parsedJson } from '../../protocol/foreign-text.ts';
import { JsonGauge } from '../../files/json-gauge.ts';
import type { Services } from '../services.ts';
import type { EmbedAnswer } from './embed-response.ts';
import type { Call, Calls, StreamHandler, UnaryHandler } from './calls.ts';

export function inference(
  calls: Calls,
  services: Services,
  definitions: Definitions,
): Record<string, StreamHandler | UnaryHandler> {
  return {
    Generate: calls.stream(async (call) => {
      const request = readRequest(definitions, call);
      for await (const event of services.router.route(request, contextOf(call))) await call.write(toMessage(event));
    }),
    Embed: calls.unary((call) => embed(call, readEmbedRequest(definitions, call), services)),
    Rerank: calls.unary((call) => rerank(call, readRerankRequest(definitions, call), services)),
  };
}

async function embed(call: Call, request: EmbedRequest, { router }: Services): Promise<EmbedAnswer> {
  const { route, start, finish, vectors } = await Collector.of(router.embed(request, contextOf(call)));
  const { model, provider } = start;
  const { usage, timings } = finish;
  const answer = { ...toMessage(route), model, provider, embeddings: vectors, usage, timings };
  return answer;
}

interface RerankCall {
  readonly request: RerankRequest;
  /** Absent: all. */
  readonly topN: number | undefined;
}

async function rerank(call: Call, { request, topN }: RerankCall, { router }: Services): Promise<object> {
  const { route, start, finish, scores } = await Collector.of(router.rerank(request, contextOf(call)));
  const { model, provider } = start;
  const { usage, timings } = finish;
  return { ...toMessage(route), model, provider, results: ranked(scores, topN), usage, timings };
}

function contextOf({ id, span, arrivedAt, signal, caller }: Call): Parameters<Services['router']['route']>[1] {
  return { traceId: id, span, arrivedAt, signal, caller };
}

interface WireSampling {
  readonly logit_bias: readonly { readonly token: number; readonly bias: number }[];
  readonly dry_sequence_breakers: readonly string[];
}

/** An empty list of breakers means that none was sent. */
function readSampling({ logit_bias: biases, dry_sequence_breakers: breakers, ...rest }: WireSampling): object {
  return {
    ...rest,
    logit_bias: biases.map(({ token, bias }) => [token, bias]),
    ...(breakers.length === 0 ? {} : { dry_sequence_breakers: breakers }),
  };
}

function readRequest(definitions: Definitions, call: Call): GenerateRequest {
  const fields = fieldsOf(definitions, 'svc.v1.GenerateRequest', call.request, false);
  const format = fields['format'] as { schema?: string } | undefined;
  const sampling = fields['sampling'] as WireSampling | undefined;
  const { tools, tool_choice, chat_template_kwargs: variables, lora, ...rest } = fields;
  const gauge = new JsonGauge();
  const request = parse(GenerateRequestSchema, {
    ...rest,
    messages: (fields['messages'] as WireMessage[]).map(readMessage),
    ...readTools(tools as WireTool[], tool_choice as string | undefined, gauge),
    // An empty list means that none was sent.
    ...((lora as object[]).length === 0 ? {} : { lora }),
    ...(variables === undefined
      ? {}
      : { chat_template_kwargs: readJson(variables as string, 'chat_template_kwargs', gauge) }),
    ...(sampling === undefined ? {} : { sampling: readSampling(sampling) }),
    ...(format?.schema === undefined
      ? {}
      : { format: { ...format, schema: readJson(format.schema, 'format.schema', gauge) } }),
    ...timeoutOf(call),
  });
  refuseFile(request);
  return request;
}

function readEmbedRequest(definitions: Definitions, call: Call): EmbedRequest {
  const fields = fieldsOf(definitions, 'svc.v1.EmbedRequest', call.request, false);
  const inputs = fields['input'] as { text?: string; tokens?: { ids: number[] } }[];
  const request = parseEmbedRequest({
    ...fields,
    input: inputs.map(({ text, tokens }) => tokens?.ids ?? text ?? ''),
    ...timeoutOf(call),
  });
  refuseFile(request);
  return request;
}

function readRerankRequest(definitions: Definitions, call: Call): RerankCall {
  const fields = fieldsOf(definitions, 'svc.v1.RerankRequest', call.request, false);
  const { top_n, ...rest } = fields as { readonly top_n?: number };
  if (top_n === 0) throw invalid('top_n', 'must be at least 1');
  const request = parseRerankRequest({ ...rest, ...timeoutOf(call) });
  refuseFile(request);
  return { request, topN: top_n };
}

/** A longer deadline counts as none. */
function timeoutOf({ timeoutMs }: Call): { timeout_ms?: number } {
  return timeoutMs === null || timeoutMs > LIMITS.timeoutMs ? {} : { timeout_ms: Math.ceil(timeoutMs) };
}

interface WireMessage {
  readonly content: string;
  readonly parts: readonly WirePart[];
  readonly tool_calls: readonly object[];
}
interface WirePart {
  readonly text?: string;
  readonly image?: WireMedia;
  readonly image_url?: string;
  readonly audio?: WireMedia;
}
interface WireMedia {
  readonly media_type: string;
  readonly data: Buffer;
}
interface WireTool {
  readonly name: string;
  readonly parameters?: string;
}

function readMessage({ content, parts, tool_calls, ...message }: WireMessage): object {
  const read = parts.map(({ text, image, image_url, audio }) => {
    if (image !== undefined) return readMedia('image', image);
    if (audio !== undefined) return readMedia('audio', audio);
    return image_url === undefined ? { type: 'text', text } : { type: 'image_url', url: image_url };
  });
  const before = content === '' ? [] : [{ type: 'text', text: content }];
  return {
    ...message,
    content: read.length === 0 ? content : [...before, ...read],
    ...(tool_calls.length === 0 ? {} : { tool_calls }),
  };
}

function readMedia(type: 'image' | 'audio', { media_type, data }: WireMedia): object {
  return { type, media_type, data: data.toString('base64') };
}

function readTools(tools: readonly WireTool[], choice: string | undefined, gauge: JsonGauge): object {
  if (tools.length === 0) {
    if (asksForCall(choice)) throw invalid('tool_choice', 'requires tools');
    return {};
  }
  const read = tools.map(({ parameters, ...tool }, index) => ({
    ...tool,
    ...(parameters === undefined
      ? {}
      : { parameters: readJson(parameters, `tools[${String(index)}].parameters`, gauge) }),
  }));
  if (choice === undefined) return { tools: read };
  return { tools: read, tool_choice: ['auto', 'none', 'required'].includes(choice) ? choice : { name: choice } };
}

/** Parses JSON in a string field. `gauge` counts all JSON of the request together. */
function readJson(text: string, param: string, gauge: JsonGauge): unknown {
  gauge.check(Buffer.from(text), param);
  const value = parsedJson(text);
  if (value === undefined) throw invalid(param, 'must be JSON');
  return value;
}

function toMessage(event: AnswerEvent): object {
  const { type, ...fields } = event;
  if (event.type === 'text' && event.logprobs !== undefined)
    return { text: { text: event.text, logprobs: event.logprobs.map(toLogprobs) } };
  return { [type]: 'route' in fields ? { trace_id: fields.trace_id, ...fields.route } : fields };
}

function toLogprobs({ top, ...token }: TokenLogprobs): object {
  return { ...toLogprob(token), top: top.map(toLogprob) };
}

function toLogprob(token: TokenLogprob): object {
  return { ...token, bytes: Buffer.from(token.bytes) };
}
