import { given } from './given.ts';
/**
 * The only table of errors. HTTP status, gRPC status, exit code, the API families' error types and whether to retry all
 * follow from the code. Only ollama/error.ts compares messages: two of the engine's.
 */

/** Properties of an error code. */
export interface ErrorFacts {
  /** HTTP status, if the response has not begun. */
  readonly http: number;
  /** gRPC status code (google.rpc.Code). */
  readonly grpc: number;
  /** Exit code of a command that fails with this error. */
  readonly exit: number;
  /** OpenAI's `error.type`. */
  readonly openai: string;
  /** True if the same request may succeed later, unchanged. */
  readonly retryable: boolean;
}

export const ERRORS = {
  INVALID_REQUEST: { http: 400, grpc: 3, exit: 2, openai: 'invalid_request_error', retryable: false },
  UNAUTHORIZED: { http: 401, grpc: 16, exit: 77, openai: 'authentication_error', retryable: false },
  FORBIDDEN: { http: 403, grpc: 7, exit: 77, openai: 'permission_error', retryable: false },
  NOT_FOUND: { http: 404, grpc: 5, exit: 1, openai: 'invalid_request_error', retryable: false },
  MODEL_NOT_FOUND: { http: 404, grpc: 5, exit: 1, openai: 'invalid_request_error', retryable: false },
  ALREADY_RUNNING: { http: 409, grpc: 6, exit: 1, openai: 'invalid_request_error', retryable: false },
  METHOD_NOT_ALLOWED: { http: 405, grpc: 12, exit: 1, openai: 'invalid_request_error', retryable: false },
  EXPECTATION_FAILED: { http: 417, grpc: 3, exit: 2, openai: 'invalid_request_error', retryable: false },
  INPUT_INVALID: { http: 400, grpc: 3, exit: 65, openai: 'invalid_request_error', retryable: false },
  REQUEST_TOO_LARGE: { http: 413, grpc: 3, exit: 65, openai: 'invalid_request_error', retryable: false },
  CONTEXT_OVERFLOW: { http: 413, grpc: 3, exit: 65, openai: 'invalid_request_error', retryable: false },
  MODEL_INVALID: { http: 422, grpc: 9, exit: 65, openai: 'invalid_request_error', retryable: false },
  BUSY: { http: 429, grpc: 8, exit: 75, openai: 'rate_limit_error', retryable: true },
  CANCELLED: { http: 499, grpc: 1, exit: 130, openai: 'invalid_request_error', retryable: false },
  INTERNAL: { http: 500, grpc: 13, exit: 1, openai: 'server_error', retryable: false },
  CONFIG_INVALID: { http: 500, grpc: 9, exit: 78, openai: 'server_error', retryable: false },
  CANNOT_WRITE: { http: 500, grpc: 13, exit: 73, openai: 'server_error', retryable: false },
  PROVIDER_AUTH: { http: 502, grpc: 16, exit: 77, openai: 'server_error', retryable: false },
  PROVIDER_FAILED: { http: 502, grpc: 14, exit: 69, openai: 'server_error', retryable: true },
  DOWNLOAD_FAILED: { http: 502, grpc: 14, exit: 69, openai: 'server_error', retryable: true },
  ENGINE_CRASHED: { http: 502, grpc: 14, exit: 69, openai: 'server_error', retryable: true },
  ENGINE_UNAVAILABLE: { http: 503, grpc: 14, exit: 69, openai: 'server_error', retryable: false },
  NOT_READY: { http: 503, grpc: 14, exit: 4, openai: 'server_error', retryable: true },
  DAEMON_NOT_RUNNING: { http: 503, grpc: 14, exit: 3, openai: 'server_error', retryable: true },
  TIMEOUT: { http: 504, grpc: 4, exit: 124, openai: 'server_error', retryable: true },
  OUT_OF_MEMORY: { http: 507, grpc: 8, exit: 1, openai: 'server_error', retryable: false },
} as const satisfies Record<string, ErrorFacts>;

export type ErrorCode = keyof typeof ERRORS;

/** Sizes of a prompt that does not fit. The clients of some APIs read them. */
export interface Overflow {
  readonly prompt_tokens: number;
  /** True if `prompt_tokens` is a lower bound: the prompt was not tokenized to its end. */
  readonly is_minimum: boolean;
  /** Limit of the prompt and the answer together; the answer needs at least one token. */
  readonly context_length: number;
}

/** The serialized form of an error: over a pipe, in a response body, in `--json` on stderr. */
export interface ErrorRecord {
  readonly code: ErrorCode;
  readonly message: string;
  readonly hint?: string;
  /** The request field at fault, by the caller's name for it. */
  readonly param?: string;
  readonly retry_after_seconds?: number;
  /** Only of CONTEXT_OVERFLOW, and only if the sizes are those of a whole prompt. */
  readonly overflow?: Overflow;
}

export interface SvcErrorOptions {
  /** Message of a provider or library, verbatim. May repeat a prompt: shown to the caller, never logged. */
  readonly quote?: string;
  /** What the user can do about it. */
  readonly hint?: string;
  readonly param?: string;
  readonly retryAfterSeconds?: number;
  readonly overflow?: Overflow;
  /** Overrides the code's default, for instance if a provider says whether a retry makes sense. */
  readonly retryable?: boolean;
  readonly cause?: unknown;
}

/** Maximum characters of a message, quote or hint, and of a field name. Longer ones are cut. */
const TEXT_LENGTH = 1024;
const PARAM_LENGTH = 256;

function bounded(text: string, length = TEXT_LENGTH): string {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}

/** Our only error class. Anything else thrown is a bug and is reported as INTERNAL. */
export class SvcError extends Error {
  readonly code: ErrorCode;
  readonly quote: string | undefined;
  readonly hint: string | undefined;
  readonly param: string | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly overflow: Overflow | undefined;
  /** True if the same request may succeed later, unchanged. */
  readonly retryable: boolean;

  constructor(code: ErrorCode, message: string, options: SvcErrorOptions = {}) {
    super(bounded(message), options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'SvcError';
    this.code = code;
    this.quote = options.quote === undefined ? undefined : bounded(options.quote);
    this.hint = options.hint === undefined ? undefined : bounded(options.hint);
    this.param = options.param === undefined ? undefined : bounded(options.param, PARAM_LENGTH);
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.overflow = options.overflow;
    this.retryable = options.retryable ?? ERRORS[code].retryable;
  }

  get facts(): ErrorFacts {
    return ERRORS[this.code];
  }

  /** Message and quote, for the caller; logs get `message` alone. */
  get told(): string {
    return this.quote === undefined ? this.message : `${this.message}: ${this.quote}`;
  }

  toRecord(): ErrorRecord {
    return {
      code: this.code,
      message: this.told,
      ...given({ hint: this.hint, param: this.param, retry_after_seconds: this.retryAfterSeconds }),
      ...given({ overflow: this.overflow }),
    };
  }

  static fromRecord(record: ErrorRecord): SvcError {
    return new SvcError(isErrorCode(record.code) ? record.code : 'INTERNAL', record.message, {
      ...given({ hint: record.hint, param: record.param, retryAfterSeconds: record.retry_after_seconds }),
      ...given({ overflow: record.overflow }),
    });
  }

  /** Converts anything thrown. The message of a foreign error may contain anything and is not shown. */
  static from(thrown: unknown): SvcError {
    if (thrown instanceof SvcError) return thrown;
    return new SvcError('INTERNAL', 'internal error in svc: this is a bug', {
      hint: 'run `svc logs` for the details, and please report it',
      cause: thrown,
    });
  }
}

export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERRORS, code);
}
