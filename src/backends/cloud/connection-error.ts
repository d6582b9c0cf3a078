/** What went wrong below HTTP, in words. Codes decide; the messages of foreign errors are not shown. */
import { SvcError } from '../../protocol/errors.ts';

interface Cause {
  readonly what: string;
  readonly hint?: string;
  /** false: the same will happen the next time. */
  readonly mayPass: boolean;
}

export function connectionError(error: unknown, url: URL, { idleTimeoutMs }: { idleTimeoutMs: number }): SvcError {
  if (error instanceof SvcError) return error;
  const code = codeOf(error);
  const { what, hint, mayPass } = causeOf(code, url, idleTimeoutMs);
  return new SvcError('PROVIDER_FAILED', what, {
    ...(hint === undefined ? {} : { hint }),
    retryable: mayPass,
    cause: error,
  });
}

function causeOf(code: string, { origin, hostname }: URL, idleTimeoutMs: number): Cause {
  switch (code) {
    case 'ECONNREFUSED':
      return { what: `nothing listens at ${origin}`, hint: 'is the server running?', mayPass: true };
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return { what: `the name ${hostname} cannot be resolved`, hint: 'check the network', mayPass: true };
    case 'UND_ERR_CONNECT_TIMEOUT':
    case 'ETIMEDOUT':
      return { what: `${origin} cannot be reached: no connection in time`, hint: 'check the network', mayPass: true };
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return { what: `${origin} cannot be reached from here`, hint: 'check the network', mayPass: true };
    case 'UND_ERR_HEADERS_TIMEOUT':
      return { what: `${origin} took the request and never answered`, mayPass: true };
    case 'UND_ERR_BODY_TIMEOUT':
      return { what: `${origin} said nothing more for ${String(idleTimeoutMs)} ms`, mayPass: true };
    case 'EPROTO':
    case 'ERR_SSL_WRONG_VERSION_NUMBER':
    case 'ERR_SSL_PACKET_LENGTH_TOO_LONG':
      return { what: `${origin} does not speak TLS`, hint: 'is the base URL one of http://?', mayPass: false };
    case 'UND_ERR_INVALID_ARG':
      return { what: 'the key, or another header, holds what HTTP cannot carry', mayPass: false };
  }
  if (code.startsWith('CERT_') || code.startsWith('ERR_TLS_') || /_CERT|_SIGNATURE$/.test(code)) {
    return {
      what: `the certificate of ${hostname} is not trusted (${code})`,
      hint: "name the authority's file in NODE_EXTRA_CA_CERTS, and start svc anew",
      mayPass: false,
    };
  }
  if (code === 'HTTPParserError' || code === 'UND_ERR_HEADERS_OVERFLOW') {
    return { what: `${origin} does not speak HTTP`, mayPass: false };
  }
  return { what: `the connection to ${origin} broke${code === '' ? '' : ` (${code})`}`, mayPass: true };
}

function codeOf(error: unknown): string {
  const { name, code, cause } = (error ?? {}) as { name?: unknown; code?: unknown; cause?: unknown };
  // The only one that may have no code.
  if (name === 'HTTPParserError') return name;
  if (typeof code === 'string') return code;
  return cause === undefined ? '' : codeOf(cause);
}
