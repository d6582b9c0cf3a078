/**
 * Reads a body of multipart/form-data. undici parses it; before that, what would cost it long is refused: many parts,
 * and long headers of a part, of which it examines each byte.
 */
import { loadUndici } from '../../net/undici.ts';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { FormField } from '../../protocol/openai/transcription.ts';
import { readBytes, resizeBytes } from './body.ts';
import type { Exchange } from './exchange.ts';

/** The only parameter, so that undici finds the same boundary. */
const CONTENT_TYPE = /^multipart\/form-data\s*;\s*boundary=(?:"([\w'()+,./:=? -]{1,70})"|([\w'+.-]{1,70}))\s*$/i;
const COPIES = 5;
const HEADERS_END = '\r\n\r\n';

/** Throws as `readJson`. */
export async function readForm(exchange: Exchange): Promise<FormField[]> {
  const [, quoted, bare] = CONTENT_TYPE.exec(exchange.req.headers['content-type'] ?? '') ?? [];
  const boundary = quoted ?? bare;
  if (boundary === undefined) {
    throw new SvcError('INVALID_REQUEST', 'the content type must be multipart/form-data with a boundary', {
      hint: 'let the HTTP library set the content type of a form',
    });
  }
  const body = await readBytes(exchange, LIMITS.formBytes);
  checkParts(body, `--${boundary}`);
  // While it is parsed there are copies of a file: undici's, the bytes and their base64. Then only the latter.
  resizeBytes(exchange, COPIES * body.length);
  const fields = await parse(body, boundary);
  resizeBytes(exchange, Math.ceil(body.length / 3) * 4);
  return fields;
}

function checkParts(body: Buffer, delimiter: string): void {
  let parts = 0;
  for (let at = body.indexOf(delimiter); at !== -1; at = body.indexOf(delimiter, at + 1)) {
    parts += 1;
    // The last delimiter begins no part.
    if (parts > LIMITS.formParts + 1)
      throw new SvcError('INVALID_REQUEST', `the form has more than ${String(LIMITS.formParts)} parts`);
    const headers = body.subarray(at + delimiter.length, at + delimiter.length + LIMITS.formHeaderBytes);
    if (headers.length === LIMITS.formHeaderBytes && !headers.includes(HEADERS_END))
      throw new SvcError('INVALID_REQUEST', `a part has more than ${String(LIMITS.formHeaderBytes)} bytes of headers`);
  }
}

async function parse(body: Buffer, boundary: string): Promise<FormField[]> {
  const { Response } = await loadUndici();
  const headers = { 'content-type': `multipart/form-data; boundary="${boundary}"` };
  // Deprecated because it reads whole bodies without limits.
  // eslint-disable-next-line @typescript-eslint/no-deprecated
  const entries = await new Response(body, { headers }).formData().then(
    (form) => [...form.entries()],
    () => {
      // Its message may quote the body.
      throw new SvcError('INVALID_REQUEST', 'the body is not valid multipart/form-data');
    },
  );
  return Promise.all(
    entries.map(async ([name, value]) => ({
      name,
      value: typeof value === 'string' ? value : Buffer.from(await value.arrayBuffer()),
    })),
  );
}
