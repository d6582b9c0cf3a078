/** Requests in flight, each with its own signal, which follows the caller's and can be aborted from here. */
import type { SvcError } from '../../protocol/errors.ts';

export interface Run {
  readonly signal: AbortSignal;
  /** Call once. */
  end(): void;
}

export class Runs {
  readonly #controllers = new Set<AbortController>();
  readonly #idleListeners: (() => void)[] = [];

  begin(caller: AbortSignal): Run {
    const controller = new AbortController();
    const follow = (): void => controller.abort(caller.reason);
    if (caller.aborted) follow();
    // Not AbortSignal.any: it would leak memory per request as long as the caller's signal lives.
    caller.addEventListener('abort', follow, { once: true });
    this.#controllers.add(controller);
    return {
      signal: controller.signal,
      end: () => {
        caller.removeEventListener('abort', follow);
        this.#controllers.delete(controller);
        if (this.#controllers.size === 0) for (const resolve of this.#idleListeners.splice(0)) resolve();
      },
    };
  }

  /** Resolves once no request is in flight. */
  async idle(): Promise<void> {
    if (this.#controllers.size > 0) await new Promise<void>((resolve) => this.#idleListeners.push(resolve));
  }

  abort(error: SvcError): void {
    for (const controller of this.#controllers) controller.abort(error);
  }
}
