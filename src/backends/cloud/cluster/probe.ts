/** Asks a server of a cluster how it is, on the paths that such servers have, with a deadline and without a key. */
import { requestsOn } from './load-report.ts';
import { startOwnDeadline } from './own-deadline.ts';
import { readText } from '../reply-text.ts';
import type { Reply, Transport } from '../transport.ts';

/** `not_ready`: it answers, and takes nothing new. */
export type Vital = 'well' | 'not_ready' | 'silent';

const DEADLINE_MS = 500;
const PAGE_BYTES = 1024 * 1024;
/** svc; vLLM, SGLang and llama-server; whatever speaks OpenAI's API. */
const PATHS = ['/readyz', '/health', '/v1/models'];
const METRICS_PATH = '/metrics';
/** A server that does not tell its load is asked again after so many times. */
const NOT_TOLD_PROBES = 120;

export class Probe {
  readonly #transport: Transport;
  #paths: readonly string[] = PATHS;
  #skip = 0;

  /** `transport`: to the server's root. Stays the caller's. */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Never rejects. A server that knows none of the paths, but says so, is well. */
  async vital(signal: AbortSignal): Promise<Vital> {
    for (const path of this.#paths) {
      const status = await this.#get(path, signal, (reply) => Promise.resolve(reply.status));
      if (status === null) return 'silent';
      if (status === 404 || status === 405) continue;
      this.#paths = [path];
      return status === 503 ? 'not_ready' : status >= 500 ? 'silent' : 'well';
    }
    return 'well';
  }

  /** Requests that wait or run there. null: it does not tell. Never rejects. */
  async requests(signal: AbortSignal): Promise<number | null> {
    if (this.#skip > 0) {
      this.#skip -= 1;
      return null;
    }
    const requests = await this.#get(METRICS_PATH, signal, async (reply) =>
      reply.status === 200 ? requestsOn(await readText(reply, PAGE_BYTES)) : null,
    );
    if (requests === null) this.#skip = NOT_TOLD_PROBES;
    return requests;
  }

  async #get<Result>(
    path: string,
    signal: AbortSignal,
    read: (reply: Reply) => Promise<Result>,
  ): Promise<Result | null> {
    const deadline = startOwnDeadline(DEADLINE_MS);
    const within = AbortSignal.any([signal, deadline.signal]);
    let reply: Reply | undefined;
    try {
      reply = await this.#transport.send(
        { path, headers: {}, body: null },
        { signal: within, hasKey: false, traceId: '' },
      );
      return await read(reply);
    } catch {
      return null;
    } finally {
      deadline.clear();
      reply?.body.destroy();
    }
  }
}
