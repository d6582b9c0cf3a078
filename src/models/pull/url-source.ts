/** A file at a URL, with a SHA-256 given by the user. */
import { SvcError } from '../../protocol/errors.ts';
import { decodePercent } from '../../protocol/foreign-text.ts';
import { modelIdFor } from '../store/model-id.ts';
import { downloadFailed } from './failures.ts';
import type { UrlReference } from './reference.ts';
import { MOST_FILE_BYTES, type Source } from './source.ts';
import type { WebAnswer, Web } from './web.ts';

/** @throws SvcError INVALID_REQUEST, MODEL_NOT_FOUND, DOWNLOAD_FAILED; `signal.reason` */
export async function findAtUrl(web: Web, { url, digest }: UrlReference, signal: AbortSignal): Promise<Source> {
  const name = decodePercent(url.pathname.split('/').at(-1) ?? '');
  if (name === undefined) {
    throw new SvcError('INVALID_REQUEST', `the path of ${shownUrl(url)} is not valid percent-encoding`, {
      hint: 'copy the address again from the page that offers the file',
      param: 'model',
    });
  }
  // Not with HEAD: a signed link often allows only GET.
  const answer = await web.follow({ url, headers: { range: 'bytes=0-0' }, signal }, url);
  answer.body.destroy();
  const { status } = answer;
  if (status === 404 || status === 410) {
    throw new SvcError('MODEL_NOT_FOUND', `there is no file at ${shownUrl(url)}`, { param: 'model' });
  }
  if (status !== 200 && status !== 206) {
    throw downloadFailed(`${url.host} answered with status ${status}`, { retryable: status >= 500 || status === 429 });
  }
  const size = sizeIn(answer);
  if (!Number.isSafeInteger(size) || size <= 0 || size > MOST_FILE_BYTES) {
    throw downloadFailed(`${url.host} does not report the size of the file`, { retryable: false });
  }
  return {
    id: modelIdFor(name, new Set()),
    isIdFixed: false,
    // The recorded source has no query, though a query may select the file: then the digest must match, too.
    replaces: (before) => before.source === shownUrl(url) && (url.search === '' || before.digest === digest),
    aliases: [],
    origin: shownUrl(url),
    weights: [{ name, sizeBytes: size, digest, locate: () => Promise.resolve({ url, named: url }) }],
    projector: null,
    license: null,
  };
}

/** Returns the size of the whole file; NaN: it is not known. */
function sizeIn({ status, header }: WebAnswer): number {
  if (status === 200) return Number(header('content-length'));
  return Number(/^bytes 0-0\/(\d+)$/.exec(header('content-range') ?? '')?.[1]);
}

/** The URL without its query, which may contain a key. */
function shownUrl(url: URL): string {
  return `${url.origin}${url.pathname}`;
}
