/**
 * Maps the paths of requests to those of the route table: aliases, trailing slashes. Makes the hint for a near miss.
 */
import { HTTP_ROUTES } from '../../protocol/routes.ts';
import { findRoute, PUBLIC } from './routes.ts';

/** llama-server's other paths of the same routes. Its `/completions` is not OpenAI's `/v1/completions`. */
export const ALIASES: ReadonlyMap<string, string> = new Map<string, string>([
  ['/completions', HTTP_ROUTES.llamaCompletion],
  ['/models', HTTP_ROUTES.models],
  ['/chat/completions', HTTP_ROUTES.chatCompletions],
  ['/embeddings', HTTP_ROUTES.embeddings],
  ['/responses', HTTP_ROUTES.responses],
  ['/reranking', HTTP_ROUTES.rerank],
  ['/v1/reranking', HTTP_ROUTES.rerankV1],
  ['/v1/health', HTTP_ROUTES.llamaHealth],
]);

/** The path in the route table that a request's path stands for. One slash at its end is ignored. */
export function routePath(path: string): string {
  const plain = /[^/]\/$/.test(path) ? path.slice(0, -1) : path;
  return ALIASES.get(plain) ?? plain;
}

/** Hint for a path that would be a route's with or without `/v1` before it; undefined: it is not close to one. */
export function nearHint(path: string, method: string): string | undefined {
  const plain = routePath(path);
  const near = plain.startsWith('/v1/') ? plain.slice('/v1'.length) : `/v1${plain}`;
  const match = findRoute(PUBLIC, routePath(near), method);
  if (match === undefined) return undefined;
  // The route, not the path: a URL may contain secrets.
  return `did you mean ${match.route.path}? Base URLs of OpenAI clients end in /v1, those of other clients do not`;
}
