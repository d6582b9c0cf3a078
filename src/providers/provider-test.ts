/**
 * Tests a provider step by step, so that the failing step is known: its key, the DNS name, the connection, and one
 * short answer, which alone proves that the key is valid and has credit.
 */
import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Backend } from '../backends/backend.ts';
import type { Provider } from '../backends/cloud/provider.ts';
import { CONTROL_CALLER } from '../protocol/caller.ts';
import { isProxied } from '../net/dispatchers.ts';
import { SvcError } from '../protocol/errors.ts';
import type { ProviderTestStep } from '../protocol/routes.ts';
import { lacksKey } from './providers.ts';

const CONNECT_MS = 10_000;
const ANSWER_MS = 60_000;
/** Minimum that every API accepts. */
const ANSWER_TOKENS = 16;

/** Yields the result of each step; ends after the first one that fails. */
export async function* testProvider(
  provider: Provider,
  backend: Backend,
  signal: AbortSignal,
): AsyncGenerator<ProviderTestStep, void> {
  const credential = provider.credential();
  if (lacksKey({ credential })) {
    yield {
      step: 'key',
      status: 'fail',
      endpoint: null,
      detail: credential.source === 'env' ? `missing: ${String(credential.name)} is not set` : 'missing',
      latency_ms: null,
      code: 'PROVIDER_AUTH',
    };
    return;
  }
  const where = credential.name ?? credential.source;
  yield ok('key', null, credential.present ? `from ${where}` : 'none needed', null);
  for (const url of provider.endpoints) {
    let isReached = true;
    for await (const step of reach(new URL(url), signal)) {
      isReached &&= step.status !== 'fail';
      yield step;
    }
    if (!isReached) return;
  }
  const models = await timed('models', () => listModels(backend, signal));
  // Some providers have no list of models.
  yield models.code === 'NOT_FOUND' ? { ...models, status: 'skip', code: null } : models;
  if (models.code !== null && models.code !== 'NOT_FOUND') return;
  if (provider.defaultModel === null) {
    yield skip('answer', null, 'skipped: the provider has no default model');
    return;
  }
  yield await timed('answer', () => answer(backend, provider.defaultModel, signal));
}

async function* reach(url: URL, signal: AbortSignal): AsyncGenerator<ProviderTestStep, void> {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (await isProxied(url)) {
    // The proxy resolves the name and connects; the next step goes through it.
    for (const step of ['dns', 'connect'] as const) yield skip(step, url.host, 'through a proxy');
    return;
  }
  if (isIP(host) === 0) {
    const dns = await timed('dns', async () => `${host} is ${(await lookup(host)).address}`, url.host);
    yield dns;
    if (dns.status !== 'ok') return;
  }
  yield await timed('connect', () => connect(url, host, signal), url.host);
}

async function connect(url: URL, host: string, signal: AbortSignal): Promise<string> {
  const isTls = url.protocol === 'https:';
  const port = url.port === '' ? (isTls ? 443 : 80) : Number(url.port);
  const socket: Socket = isTls
    ? connectTls({ host, port, ...(isIP(host) === 0 ? { servername: host } : {}) })
    : connectTcp({ host, port });
  try {
    await once(socket, isTls ? 'secureConnect' : 'connect', {
      signal: AbortSignal.any([signal, AbortSignal.timeout(CONNECT_MS)]),
    });
    return `${isTls ? 'TLS' : 'plain http'} to port ${String(port)}`;
  } finally {
    socket.destroy();
  }
}

async function listModels(backend: Backend, signal: AbortSignal): Promise<string> {
  const names = await backend.modelNames(AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]));
  return names.length === 0 ? 'it lists none' : `it lists ${String(names.length)}`;
}

async function answer(backend: Backend, model: string | null, signal: AbortSignal): Promise<string> {
  const request = {
    messages: [{ role: 'user' as const, content: 'Say yes.' }],
    max_tokens: ANSWER_TOKENS,
    sampling: {},
    stop: [],
    ...(model === null ? {} : { model }),
  };
  const context = {
    traceId: 'provider-test',
    caller: CONTROL_CALLER,
    signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]),
    arrivedAt: performance.now(),
  };
  let name = model ?? '';
  for await (const event of backend.generate(request, context)) if (event.type === 'start') name = event.model;
  return `${name} has answered`;
}

async function timed(
  step: ProviderTestStep['step'],
  work: () => Promise<string>,
  endpoint: string | null = null,
): Promise<ProviderTestStep> {
  const begun = performance.now();
  try {
    const detail = await work();
    return ok(step, endpoint, detail, Math.round(performance.now() - begun));
  } catch (error) {
    const { code, message } = asFailure(error);
    return { step, status: 'fail', endpoint, detail: message, latency_ms: null, code };
  }
}

/** Converts an error to a SvcError. Of network errors only the code is used: the message may hold anything. */
function asFailure(error: unknown): SvcError {
  if (error instanceof SvcError) return error;
  const { name, code } = error as NodeJS.ErrnoException;
  if (name === 'TimeoutError') return new SvcError('TIMEOUT', 'it takes too long');
  if (name === 'AbortError' && (error as Error).cause instanceof DOMException) {
    return new SvcError('TIMEOUT', `no connection within ${String(CONNECT_MS / 1000)} s`);
  }
  return new SvcError('PROVIDER_FAILED', `it cannot be reached (${code ?? name})`, { cause: error });
}

function ok(
  step: ProviderTestStep['step'],
  endpoint: string | null,
  detail: string,
  latencyMs: number | null,
): ProviderTestStep {
  return { step, status: 'ok', endpoint, detail, latency_ms: latencyMs, code: null };
}

function skip(step: ProviderTestStep['step'], endpoint: string | null, detail: string): ProviderTestStep {
  return { ...ok(step, endpoint, detail, null), status: 'skip' };
}
