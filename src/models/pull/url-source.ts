/** A file at an https address, of which a person has told the SHA-256. */
import { SvcError } from '../../protocol/errors.ts';
import { decodePercent } from '../../protocol/foreign-text.ts';
import { modelIdFor } from '../model-id.ts';
import { downloadFailed } from './failures.ts';
import type { UrlReference } from './reference.ts';
import { MOST_FILE_BYTES, type Source } from './source.ts';
import type { Web } from './web.ts';

/** @throws SvcError INVALID_REQUEST, MODEL_NOT_FOUND, DOWNLOAD_FAILED; `signal.reason` */
export async function findAtUrl(web: Web, { url, digest }: UrlReference, signal: AbortSignal): Promise<Source> {
  const name = decodePercent(url.pathname.split('/').at(-1) ?? '');
  if (name === undefined) {
    throw new SvcError('INVALID_REQUEST', `the path of ${shownUrl(url)} is not valid percent-encoding`, {
      hint: 'copy the address again from where the file is offered',
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
        ? `${url.host} does not tell how large the file is`
        : `${url.host} answered with status ${answer.status}`,
      { retryable: answer.status >= 500 || answer.status === 429 },
    );
  }
  return {
    id: modelIdFor(name, new Set()),
    aliases: [],
    origin: shownUrl(url),
    weights: [{ name, sizeBytes: size, digest, locate: () => Promise.resolve({ url, named: url }) }],
    projector: null,
    license: null,
  };
}

/** Without what follows the path: it may be a key. */
function shownUrl(url: URL): string {
  return `${url.origin}${url.pathname}`;
}
