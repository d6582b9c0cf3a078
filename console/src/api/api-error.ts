/** Errors of requests, as the page shows them. */
import type { ErrorRecord } from '../../../src/protocol/errors.ts';
import type { ErrorEvent } from '../../../src/protocol/routes.ts';

export class ApiError extends Error {
  /** Code of the daemon's error; `UNREACHABLE`: there was no answer; `HTTP`: an answer that is not svc's. */
  readonly code: string;
  /** What the user can do. */
  readonly hint: string | null;

  constructor(code: string, message: string, hint: string | null = null) {
    super(message);
    this.name = 'ApiError';
    this.code = code;
    this.hint = hint;
  }

  static fromRecord({ code, message, hint }: ErrorRecord): ApiError {
    return new ApiError(code, message, hint ?? null);
  }

  /** The request failed before its answer was complete. */
  static unreachable(cause: unknown): ApiError {
    if (cause instanceof DOMException && cause.name === 'AbortError') return new ApiError('CANCELLED', 'stopped');
    return new ApiError('UNREACHABLE', 'svc does not answer', 'It may be restarting. This page connects by itself.');
  }

  static cutOff(): ApiError {
    return new ApiError('UNREACHABLE', 'the answer was cut off', 'Try again.');
  }

  /** Converts anything thrown. */
  static from(thrown: unknown): ApiError {
    if (thrown instanceof ApiError) return thrown;
    return new ApiError('PAGE', thrown instanceof Error ? thrown.message : String(thrown), 'Reload the page.');
  }

  get isCancelled(): boolean {
    return this.code === 'CANCELLED';
  }

  get isUnreachable(): boolean {
    return this.code === 'UNREACHABLE';
  }
}

export function isErrorEvent(event: { readonly type: string }): event is ErrorEvent {
  return event.type === 'error';
}

/** The error in the body of a refused request. */
export async function errorOf(response: Response): Promise<ApiError> {
  const body = (await response.json().catch(() => null)) as { readonly error?: Partial<ErrorRecord> } | null;
  const record = body?.error;
  if (typeof record?.message !== 'string') return new ApiError('HTTP', `the answer is HTTP ${response.status}`);
  return new ApiError(record.code ?? 'HTTP', record.message, record.hint ?? null);
}
