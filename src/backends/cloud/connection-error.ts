/** Describes errors below HTTP by their codes; the messages of foreign errors are not shown. */
import { SvcError } from '../../protocol/errors.ts';
import { given } from '../../protocol/given.ts';

interface Cause {
  readonly what: string;
  readonly hint?: string;
  /** false: a retry would fail the same way. */
  readonly mayPass: boolean;
}

export function connectionError(error: unknown, url: URL, { idleTimeoutMs }: { idleTimeoutMs: number }): SvcError {
  if (error instanceof SvcError) return error;
  const code = codeOf(error);
  const { what, hint, mayPass } = causeOf(code, url, idleTimeoutMs);
  return new SvcError('PROVIDER_FAILED', what, {
    ...given({ hint }),
    retryable: mayPass,
    cause: error,
  });
}

function causeOf(code: string, { origin, hostname }: URL, idleTimeoutMs: number): Cause {
  switch (code) {
    case 'ECONNREFUSED':
      return {
        what: `connection refused by ${origin}`,
        hint: 'check that the server runs and that the base URL has the right port',
        mayPass: true,
      };
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return { what: `cannot resolve the host name ${hostname}`, hint: 'check the network', mayPass: true };
    case 'UND_ERR_CONNECT_TIMEOUT':
    case 'ETIMEDOUT':
      return { what: `timeout while connecting to ${origin}`, hint: 'check the network', mayPass: true };
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return { what: `no route to ${origin}`, hint: 'check the network', mayPass: true };
    case 'UND_ERR_HEADERS_TIMEOUT':
      return { what: `timeout: ${origin} accepted the request but did not answer`, mayPass: true };
    case 'UND_ERR_BODY_TIMEOUT':
      return { what: `timeout: ${origin} sent nothing for ${String(idleTimeoutMs)} ms`, mayPass: true };
    case 'EPROTO':
    case 'ERR_SSL_WRONG_VERSION_NUMBER':
    case 'ERR_SSL_PACKET_LENGTH_TOO_LONG':
      return {
        what: `${origin} does not speak TLS`,
        hint: 'use a base URL with http:// if the server has no TLS',
        mayPass: false,
      };
    case 'UND_ERR_INVALID_ARG':
      return { what: 'the API key or another header contains characters that HTTP does not allow', mayPass: false };
  }
  if (code.startsWith('CERT_') || code.startsWith('ERR_TLS_') || /_CERT|_SIGNATURE$/.test(code)) {
    return {
      what: `the certificate of ${hostname} is not trusted (${code})`,
      hint: 'set NODE_EXTRA_CA_CERTS to the CA certificate file and restart svc',
      mayPass: false,
    };
  }
  if (code === 'HTTPParserError' || code === 'UND_ERR_HEADERS_OVERFLOW') {
    return { what: `${origin} does not speak HTTP`, mayPass: false };
  }
  return { what: `connection to ${origin} lost${code === '' ? '' : ` (${code})`}`, mayPass: true };
}

function codeOf(error: unknown): string {
  const { name, code, cause } = (error ?? {}) as { name?: unknown; code?: unknown; cause?: unknown };
  // The only error that may have no code.
  if (name === 'HTTPParserError') return name;
  if (typeof code === 'string') return code;
  return cause === undefined ? '' : codeOf(cause);
}
