/**
 * Converts a SvcError to a gRPC status and back. The status code follows from the table of errors; the SvcError's code
 * is the `reason` of a google.rpc.ErrorInfo in `grpc-status-details-bin`.
 */
import { isErrorCode, SvcError } from '../protocol/errors.ts';
import { given } from '../protocol/given.ts';
import type { Definitions } from './definitions.ts';

export const DETAILS_KEY = 'grpc-status-details-bin';

/** The `domain` of every ErrorInfo from svc. */
const DOMAIN = 'svc';
const ERROR_INFO = 'google.rpc.ErrorInfo';
const RETRY_INFO = 'google.rpc.RetryInfo';
/** Default for errors without a retry time, as for `Retry-After`. */
const RETRY_AFTER_SECONDS = 1;

/** Encodes the google.rpc.Status for the details. `id` is the request's id, as in the log. */
export function encodeDetails(definitions: Definitions, error: SvcError, id: string): Buffer {
  const { hint, param, told, facts, retryAfterSeconds } = error;
  const details: object[] = [
    {
      '@type': typeUrl(ERROR_INFO),
      reason: error.code,
      domain: DOMAIN,
      metadata: {
        request_id: id,
        ...given({ hint, param }),
      },
    },
  ];
  if (error.code === 'BUSY' || error.code === 'NOT_READY' || retryAfterSeconds !== undefined) {
    const seconds = Math.ceil(retryAfterSeconds ?? RETRY_AFTER_SECONDS);
    details.push({ '@type': typeUrl(RETRY_INFO), retry_delay: { seconds } });
  }
  return definitions.encode('google.rpc.Status', { code: facts.grpc, message: told, details });
}

/** Decodes the details. null: they do not come from svc. */
export function decodeDetails(definitions: Definitions, bytes: Buffer): SvcError | null {
  const { message, details } = definitions.decode('google.rpc.Status', bytes) as {
    readonly message: string;
    readonly details: readonly { readonly type_url: string; readonly value: Buffer }[];
  };
  const info = details.find(({ type_url }) => type_url === typeUrl(ERROR_INFO));
  if (info === undefined) return null;
  const { reason, domain, metadata } = definitions.decode(ERROR_INFO, info.value) as {
    readonly reason: string;
    readonly domain: string;
    readonly metadata: Readonly<Record<string, string>>;
  };
  if (domain !== DOMAIN || !isErrorCode(reason)) return null;
  const { hint } = metadata;
  return new SvcError(reason, message, given({ hint }));
}

function typeUrl(message: string): string {
  return `type.googleapis.com/${message}`;
}
