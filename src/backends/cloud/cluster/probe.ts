/** Probes the health of a cluster's server on the usual paths, with a deadline and without a key. */
import { requestsOn } from './load-report.ts';
import { startOwnDeadline } from './own-deadline.ts';
import { readText } from '../reply-text.ts';
import type { Reply, Transport } from '../transport.ts';

/** `not_ready`: answers, but accepts no new requests. */
export type Vital = 'well' | 'not_ready' | 'silent';

const DEADLINE_MS = 500;
const PAGE_BYTES = 1024 * 1024;
/** Paths of svc; of vLLM, SGLang and llama-server; of any OpenAI-compatible server. */
const PATHS = ['/readyz', '/health', '/v1/models'];
const METRICS_PATH = '/metrics';
/** Number of probes to skip if a server does not report its load. */
const NOT_TOLD_PROBES = 120;

export class Probe {
  readonly #transport: Transport;
  #paths: readonly string[] = PATHS;
  #skip = 0;

  /** `transport`: to the server's root; owned by the caller. */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Never rejects. A server that answers 404 or 405 on every path counts as healthy (`well`). */
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

  /** Waiting and running requests there. null: not reported. Never rejects. */
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
        { signal: within, hasKey: false, traceId: null },
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
