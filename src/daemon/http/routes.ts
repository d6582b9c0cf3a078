/** All routes of the HTTP API: path, method, scope and handler. */
import type { IncomingHttpHeaders } from 'node:http';
import { CONTROL_ROUTES, HTTP_ROUTES } from '../../protocol/routes.ts';
import { decodePercent } from '../../protocol/foreign-text.ts';
import type { BodyKind } from './access.ts';
import { countTokens } from './anthropic/count-tokens.ts';
import { messages } from './anthropic/messages.ts';
import * as anthropic from './anthropic/models.ts';
import { byClient, isAnthropic } from './anthropic/version.ts';
import type { RouteScope } from './authorize.ts';
import * as keys from './console/keys.ts';
import * as observe from './console/observe.ts';
import { consoleFile, root } from './console/page.ts';
import { link, signIn } from './console/sign-in.ts';
import { chatCompletions } from './openai/chat-completions.ts';
import { completions } from './openai/completions.ts';
import * as control from './control.ts';
import { embeddings } from './openai/embeddings.ts';
import type { Handler } from './exchange.ts';
import { health, livez, readyz, readyzOne } from './health.ts';
import { infill, llamaCompletion } from './llama-server/completion.ts';
import { llamaHealth, props } from './llama-server/props.ts';
import { applyTemplate, detokenize, tokenize } from './llama-server/tokenize.ts';
import * as manage from './manage.ts';
import { metrics } from './metrics.ts';
import { listModels, showModel } from './openai/models.ts';
import { ollamaChat, ollamaGenerate } from './ollama/answers.ts';
import { ollamaEmbed, ollamaEmbeddings } from './ollama/embed.ts';
import * as ollama from './ollama/models.ts';
import { ollamaPull } from './ollama/pull.ts';
import { rerank } from './cohere/rerank.ts';
import * as runtime from './runtime.ts';
import { createResponse } from './openai/responses/create.ts';
import { countInputTokens } from './openai/responses/input-tokens.ts';
import { cancelResponse, deleteResponse, listInputItems, showResponse } from './openai/responses/stored.ts';
import type { ApiFamily } from './reply.ts';
import { transcriptions } from './openai/transcriptions.ts';

export interface Route {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** A `*` stands for a parameter: the rest of the path at its end, else one segment. */
  readonly path: string;
  /** Scope that a caller over TCP needs. */
  readonly scope: RouteScope;
  /** Body that a POST or DELETE over TCP must declare; `none`: it has none. Absent: `json`. */
  readonly body?: BodyKind | 'none';
  readonly handler: Handler;
}

/** Routes over TCP and the control socket. A GET changes nothing; its handler also answers HEAD. */
export const PUBLIC: readonly Route[] = [
  { method: 'GET', path: HTTP_ROUTES.livez, scope: 'none', handler: livez },
  { method: 'GET', path: HTTP_ROUTES.readyz, scope: 'probe', handler: readyz },
  { method: 'GET', path: `${HTTP_ROUTES.readyz}/*`, scope: 'probe', handler: readyzOne },
  { method: 'GET', path: HTTP_ROUTES.health, scope: 'local', handler: health },
  { method: 'GET', path: HTTP_ROUTES.runtimeModels, scope: 'local', handler: runtime.models },
  { method: 'POST', path: HTTP_ROUTES.runtimeGenerate, scope: 'local', handler: runtime.generate },
  { method: 'POST', path: HTTP_ROUTES.runtimeEmbed, scope: 'local', handler: runtime.embed },
  { method: 'POST', path: HTTP_ROUTES.runtimeRerank, scope: 'local', handler: runtime.rerank },
  { method: 'GET', path: HTTP_ROUTES.runtimeStatus, scope: 'admin', handler: manage.status },
  { method: 'GET', path: HTTP_ROUTES.runtimeProviders, scope: 'admin', handler: manage.providers },
  { method: 'GET', path: HTTP_ROUTES.runtimeCatalogue, scope: 'admin', handler: manage.catalogue },
  { method: 'POST', path: HTTP_ROUTES.runtimeLoad, scope: 'admin', handler: manage.load },
  { method: 'POST', path: HTTP_ROUTES.runtimeUnload, scope: 'admin', handler: manage.unload },
  { method: 'POST', path: HTTP_ROUTES.runtimePull, scope: 'admin', handler: manage.pull },
  { method: 'POST', path: HTTP_ROUTES.runtimeQuantize, scope: 'admin', handler: manage.quantize },
  { method: 'POST', path: HTTP_ROUTES.runtimeVerify, scope: 'admin', handler: manage.verify },
  { method: 'POST', path: HTTP_ROUTES.runtimeImport, scope: 'admin_key', handler: manage.importModels },
  { method: 'POST', path: HTTP_ROUTES.runtimeRemove, scope: 'admin', handler: manage.remove },
  { method: 'POST', path: HTTP_ROUTES.runtimeDefault, scope: 'admin', handler: manage.setDefault },
  { method: 'GET', path: HTTP_ROUTES.runtimeLive, scope: 'admin', handler: observe.live },
  { method: 'POST', path: HTTP_ROUTES.runtimeCancel, scope: 'admin', handler: observe.cancel },
  { method: 'GET', path: HTTP_ROUTES.runtimeLogs, scope: 'admin', handler: observe.logs },
  { method: 'GET', path: HTTP_ROUTES.runtimeDoctor, scope: 'admin', handler: observe.doctor },
  { method: 'GET', path: HTTP_ROUTES.runtimeUsage, scope: 'admin', handler: observe.usage },
  { method: 'GET', path: HTTP_ROUTES.runtimeKeys, scope: 'admin', handler: keys.list },
  { method: 'POST', path: HTTP_ROUTES.runtimeKeys, scope: 'admin_key', handler: keys.add },
  { method: 'POST', path: HTTP_ROUTES.runtimeKeysRemove, scope: 'admin_key', handler: keys.remove },
  { method: 'GET', path: HTTP_ROUTES.metrics, scope: 'local', handler: metrics },
  { method: 'POST', path: HTTP_ROUTES.chatCompletions, scope: 'local', handler: chatCompletions },
  { method: 'POST', path: HTTP_ROUTES.messages, scope: 'local', handler: messages },
  { method: 'POST', path: HTTP_ROUTES.countTokens, scope: 'local', handler: countTokens },
  { method: 'POST', path: HTTP_ROUTES.completions, scope: 'local', handler: completions },
  { method: 'POST', path: HTTP_ROUTES.responses, scope: 'local', handler: createResponse },
  { method: 'POST', path: HTTP_ROUTES.responseInputTokens, scope: 'local', handler: countInputTokens },
  { method: 'GET', path: HTTP_ROUTES.responseInputItems, scope: 'local', handler: listInputItems },
  { method: 'POST', path: HTTP_ROUTES.responseCancel, scope: 'local', body: 'none', handler: cancelResponse },
  { method: 'GET', path: HTTP_ROUTES.response, scope: 'local', handler: showResponse },
  { method: 'DELETE', path: HTTP_ROUTES.response, scope: 'local', body: 'none', handler: deleteResponse },
  { method: 'POST', path: HTTP_ROUTES.transcriptions, scope: 'local', body: 'form', handler: transcriptions },
  { method: 'POST', path: HTTP_ROUTES.embeddings, scope: 'local', handler: embeddings },
  { method: 'POST', path: HTTP_ROUTES.rerankV1, scope: 'local', handler: rerank('1') },
  { method: 'POST', path: HTTP_ROUTES.rerankV2, scope: 'local', handler: rerank('2') },
  { method: 'POST', path: HTTP_ROUTES.rerank, scope: 'local', handler: rerank('2') },
  { method: 'GET', path: HTTP_ROUTES.models, scope: 'local', handler: byClient(anthropic.listModels, listModels) },
  {
    method: 'GET',
    path: `${HTTP_ROUTES.models}/*`,
    scope: 'local',
    handler: byClient(anthropic.showModel, showModel),
  },
  { method: 'POST', path: HTTP_ROUTES.tokenize, scope: 'local', handler: tokenize },
  { method: 'POST', path: HTTP_ROUTES.detokenize, scope: 'local', handler: detokenize },
  { method: 'POST', path: HTTP_ROUTES.applyTemplate, scope: 'local', handler: applyTemplate },
  { method: 'POST', path: HTTP_ROUTES.llamaCompletion, scope: 'local', handler: llamaCompletion },
  { method: 'POST', path: HTTP_ROUTES.infill, scope: 'local', handler: infill },
  { method: 'GET', path: HTTP_ROUTES.llamaHealth, scope: 'none', handler: llamaHealth },
  { method: 'GET', path: HTTP_ROUTES.props, scope: 'local', handler: props },
  { method: 'GET', path: HTTP_ROUTES.root, scope: 'none', handler: root },
  { method: 'GET', path: HTTP_ROUTES.consoleFile, scope: 'none', handler: consoleFile },
  { method: 'POST', path: HTTP_ROUTES.signIn, scope: 'none', handler: signIn },
  { method: 'GET', path: HTTP_ROUTES.ollamaVersion, scope: 'local', handler: ollama.ollamaVersion },
  { method: 'GET', path: HTTP_ROUTES.ollamaTags, scope: 'local', handler: ollama.ollamaTags },
  { method: 'GET', path: HTTP_ROUTES.ollamaPs, scope: 'local', handler: ollama.ollamaPs },
  { method: 'POST', path: HTTP_ROUTES.ollamaShow, scope: 'local', body: 'undeclared', handler: ollama.ollamaShow },
  { method: 'POST', path: HTTP_ROUTES.ollamaChat, scope: 'local', body: 'undeclared', handler: ollamaChat },
  { method: 'POST', path: HTTP_ROUTES.ollamaGenerate, scope: 'local', body: 'undeclared', handler: ollamaGenerate },
  { method: 'POST', path: HTTP_ROUTES.ollamaEmbed, scope: 'local', body: 'undeclared', handler: ollamaEmbed },
  { method: 'POST', path: HTTP_ROUTES.ollamaEmbeddings, scope: 'local', body: 'undeclared', handler: ollamaEmbeddings },
  { method: 'POST', path: HTTP_ROUTES.ollamaPull, scope: 'admin_key', handler: ollamaPull },
  { method: 'POST', path: HTTP_ROUTES.ollamaCopy, scope: 'admin_key', handler: ollama.ollamaCopy },
  { method: 'POST', path: HTTP_ROUTES.ollamaCreate, scope: 'admin_key', handler: ollama.ollamaCreate },
  { method: 'DELETE', path: HTTP_ROUTES.ollamaDelete, scope: 'admin_key', handler: ollama.ollamaDelete },
];

/** Routes of the control socket only. */
export const CONTROL: readonly Route[] = [
  { method: 'GET', path: CONTROL_ROUTES.status, scope: 'admin', handler: manage.status },
  { method: 'POST', path: CONTROL_ROUTES.stop, scope: 'admin', handler: control.stop },
  { method: 'POST', path: CONTROL_ROUTES.drain, scope: 'admin', handler: control.drain },
  { method: 'POST', path: CONTROL_ROUTES.reload, scope: 'admin', handler: control.reload },
  { method: 'POST', path: CONTROL_ROUTES.load, scope: 'admin', handler: manage.load },
  { method: 'POST', path: CONTROL_ROUTES.pull, scope: 'admin', handler: manage.pull },
  { method: 'POST', path: CONTROL_ROUTES.unload, scope: 'admin', handler: manage.unload },
  { method: 'GET', path: CONTROL_ROUTES.providers, scope: 'admin', handler: manage.providers },
  { method: 'POST', path: CONTROL_ROUTES.providerModels, scope: 'admin', handler: control.providerModels },
  { method: 'POST', path: CONTROL_ROUTES.providerTest, scope: 'admin', handler: control.testProvider },
  { method: 'POST', path: CONTROL_ROUTES.providerKey, scope: 'admin', handler: control.lendKey },
  { method: 'POST', path: CONTROL_ROUTES.consoleLink, scope: 'admin', handler: link },
];

export interface RouteMatch {
  readonly route: Route;
  /** Decoded text for the `*`. */
  readonly param: string;
}

/** OpenAI's path of a function that svc does not have. It looks like that of a response with the id `compact`. */
const COMPACT = `${HTTP_ROUTES.responses}/compact`;

/**
 * Finds the route of a path: of those with the first path that fits the one of this method; without one, another, so
 * that the caller can refuse the method. undefined: no such path.
 */
export function findRoute(routes: readonly Route[], path: string, method: string): RouteMatch | undefined {
  if (path === COMPACT) return undefined;
  for (const first of routes) {
    const param = paramOf(first.path, path);
    if (param === undefined) continue;
    const route = routes.find((each) => each.path === first.path && answers(each, method)) ?? first;
    return { route, param };
  }
  return undefined;
}

/** llama-server's own routes have errors in OpenAI's format. */
const LLAMA_SERVER: ReadonlySet<string> = new Set([
  HTTP_ROUTES.tokenize,
  HTTP_ROUTES.detokenize,
  HTTP_ROUTES.applyTemplate,
  HTTP_ROUTES.llamaCompletion,
  HTTP_ROUTES.infill,
  HTTP_ROUTES.llamaHealth,
  HTTP_ROUTES.props,
]);

/** True if the route answers the method. */
export function answers(route: Route, method: string): boolean {
  return route.method === (method === 'HEAD' ? 'GET' : method);
}

/** Methods of all routes with this path, for the header `allow`. */
export function methodsOf(routes: readonly Route[], path: string): string {
  const methods = routes.filter((route) => route.path === path).map(({ method }) => method);
  return methods.map((method) => (method === 'GET' ? 'GET, HEAD' : method)).join(', ');
}

/** Decoded text for the `*` of a route's path; empty without one. undefined: `path` is another. */
function paramOf(pattern: string, path: string): string | undefined {
  const [before = '', after] = pattern.split('*');
  if (after === undefined) return pattern === path ? '' : undefined;
  if (!path.startsWith(before) || !path.endsWith(after)) return undefined;
  const raw = path.slice(before.length, path.length - after.length);
  if (raw === '' || (after !== '' && raw.includes('/'))) return undefined;
  const param = decodePercent(raw);
  return param === '' ? undefined : param;
}

/** The API whose error format the clients of a path read. `headers`: request headers. */
export function familyOf(path: string, headers: IncomingHttpHeaders): ApiFamily {
  if (/^\/v1\/messages(\/|$)/.test(path)) return 'anthropic';
  if (/^\/v1\/models(\/|$)/.test(path) && isAnthropic(headers)) return 'anthropic';
  if (path.startsWith('/api/')) return 'ollama';
  if (/^(?:\/v[12])?\/rerank$/.test(path)) return 'cohere';
  if (LLAMA_SERVER.has(path)) return 'openai';
  return /^\/v1(\/(?!runtime(\/|$))|$)/.test(path) ? 'openai' : 'native';
}
