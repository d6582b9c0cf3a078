/** A file at a URL, with a SHA-256 given by the user. */
import { SvcError } from '../../protocol/errors.ts';
import { decodePercent } from '../../protocol/foreign-text.ts';
import { modelIdFor } from '../store/model-id.ts';
import { downloadFailed } from './failures.ts';
import type { UrlReference } from './reference.ts';
import { MOST_FILE_BYTES, type Source } from './source.ts';
import type { Web } from './web.ts';

/** @throws SvcError INVALID_REQUEST, MODEL_NOT_FOUND, DOWNLOAD_FAILED; `signal.reason` */
export async function findAtUrl(web: Web, { url, digest }: UrlReference, signal: AbortSignal): Promise<Source> {
  const name = decodePercent(url.pathname.split('/').at(-1) ?? '');
  if (name === undefined) {
    throw new SvcError('INVALID_REQUEST', `the path of ${shownUrl(url)} is not valid percent-encoding`, {
      hint: 'copy the address again from the page that offers the file',
      param: 'model',
    });
  }
  const answer = await web.follow({ url, method: 'HEAD', signal }, url);
  answer.body.destroy();
  if (answer.status === 404 || answer.status === 410) {
    throw new SvcError('MODEL_NOT_FOUND', `there is no file at ${shownUrl(url)}`, { param: 'model' });
  }
  const size = Number(answer.header('content-length'));
  if (answer.status !== 200 || !Number.isSafeInteger(size) || size <= 0 || size > MOST_FILE_BYTES) {
    throw downloadFailed(
      answer.status === 200
        ? `${url.host} does not report the size of the file`
        : `${url.host} answered with status ${answer.status}`,
      { retryable: answer.status >= 500 || answer.status === 429 },
    );
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

/** The URL without its query, which may contain a key. */
function shownUrl(url: URL): string {
  return `${url.origin}${url.pathname}`;
}
