/**
 * The console's page: `GET /` in a browser, and the files that it refers to. Public, because they hold no data. The
 * page may load nothing from elsewhere, and no other page may frame it.
 */
import { SvcError } from '../../../protocol/errors.ts';
import type { PageFile } from '../../services.ts';
import type { Exchange } from '../exchange.ts';

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "connect-src 'self'",
  'media-src data: blob:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** By this line programs find Ollama's API. */
const OLLAMA = 'Ollama is running';

const NO_PAGE = 'svc is running, but this build has no console: `npm run build` makes it\n';

export async function root(exchange: Exchange): Promise<void> {
  const { req, reply, services } = exchange;
  reply.setHeader('vary', 'Accept, Origin');
  if (!/\btext\/html\b/i.test(req.headers.accept ?? '')) {
    reply.text(200, OLLAMA);
    return;
  }
  const page = await services.console.page('index.html');
  if (page === null) reply.text(404, NO_PAGE);
  else send(exchange, page);
}

export async function consoleFile(exchange: Exchange): Promise<void> {
  // The page itself is at `/` only.
  const file = exchange.param === 'index.html' ? null : await exchange.services.console.page(exchange.param);
  if (file === null) throw new SvcError('NOT_FOUND', 'the console has no file at this path');
  send(exchange, file);
}

function send({ req, reply }: Exchange, file: PageFile): void {
  reply.setHeader('content-security-policy', POLICY);
  reply.setHeader('referrer-policy', 'no-referrer');
  reply.setHeader('cross-origin-opener-policy', 'same-origin');
  reply.setHeader('cross-origin-resource-policy', 'same-origin');
  reply.setHeader('cache-control', 'no-cache');
  reply.setHeader('etag', file.etag);
  if (req.headers['if-none-match'] === file.etag) reply.empty(304);
  else reply.text(200, file.text, file.contentType);
}
