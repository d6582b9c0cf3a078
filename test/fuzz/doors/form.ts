/** Target `form`: forms with a sound, with fields replaced, repeated and left out, some also with damaged bytes. */
import { Pool } from 'undici';
import { HTTP_ROUTES } from '../../../src/protocol/routes.ts';
import { wav } from '../../support/media-files.ts';
import type { Random } from '../random.ts';
import { damaged, once, randomBytes } from './bytes.ts';
import type { Door, Player } from './doors.ts';

const CASES = 200_000;
const CONNECTIONS = 32;
const PATIENCE_MS = 300;
const BOUNDARY = 'b0undary';

const TYPES = [
  ...[`multipart/form-data; boundary=${BOUNDARY}`, `multipart/form-data; boundary="${BOUNDARY}"`],
  ...['multipart/form-data', 'multipart/form-data; boundary=', 'multipart/form-data; boundary=-', 'application/json'],
];
const FILE = 'content-disposition: form-data; name="file"; filename="a.wav"\r\ncontent-type: audio/wav';
const FILES = [wav(20, 440), wav(20, 200), Buffer.from('ID3'), Buffer.from('fLaC'), Buffer.from('OggS')];
const HEADERS = [
  FILE,
  'content-disposition: form-data; name="file"',
  "content-disposition: form-data; name*=utf-8''file; filename*=utf-8''%ff",
  `${FILE}\r\ncontent-transfer-encoding: base64`,
  'content-disposition: attachment; name="file"',
  'content-disposition: form-data; name="__proto__"; filename="__proto__"',
  'content-disposition: form-data; name=',
  'x: y',
  '',
];
export const FIELD_NAMES = [
  'model',
  'language',
  'prompt',
  'response_format',
  'temperature',
  'stream',
  'include[]',
  '__proto__',
  'x',
];
const VALUES = [
  ...[
    'tiny',
    'en',
    'xx',
    'en-abc',
    'zh-Hant',
    'json',
    'text',
    'verbose_json',
    'srt',
    '0',
    '0.5',
    '-1',
    'NaN',
    '1e999',
    'true',
    'false',
  ],
  ...[
    '',
    ' ',
    '\0',
    '\u202e',
    '\r\n',
    '--',
    `--${BOUNDARY}`,
    `\r\n--${BOUNDARY}--`,
    'file:/etc/passwd',
    'a'.repeat(2000),
  ],
];

export const form: Door = {
  name: 'form',
  cases: CASES,
  isShipped: false,
  open: ({ httpPort }) => Promise.resolve(new FormPlayer(httpPort)),
};

class FormPlayer implements Player {
  readonly #pool: Pool;

  constructor(port: number) {
    const options = { connections: CONNECTIONS, headersTimeout: PATIENCE_MS, bodyTimeout: PATIENCE_MS };
    this.#pool = new Pool(`http://127.0.0.1:${String(port)}`, options);
  }

  async play(random: Random): Promise<string | null> {
    const body = bodyBytes(random);
    const type = once(random, 8) ? random.of(TYPES) : TYPES[0];
    try {
      const headers = { 'content-type': type ?? '' };
      const path = HTTP_ROUTES.transcriptions;
      const { statusCode, body: answer } = await this.#pool.request({ path, method: 'POST', headers, body });
      const text = await answer.text();
      return statusCode < 500 ? null : `answers ${String(statusCode)} ${text.trim()} to ${body.toString('latin1')}`;
    } catch {
      // A longer generation, or a connection that the daemon closed; check() shows whether the daemon lives.
      return null;
    }
  }

  close(): void {
    void this.#pool.destroy();
  }
}

function bodyBytes(random: Random): Buffer {
  if (once(random, 12)) return randomBytes(random, 60);
  const parts = once(random, 8) ? [] : [part(once(random, 8) ? random.of(HEADERS) : FILE, random.of(FILES))];
  for (let count = random.below(once(random, 20) ? 80 : 4); count > 0; count -= 1) {
    parts.push(
      part(`content-disposition: form-data; name="${random.of(FIELD_NAMES)}"`, Buffer.from(random.of(VALUES))),
    );
  }
  const bytes = Buffer.concat([...parts, Buffer.from(`--${BOUNDARY}--\r\n`)]);
  return once(random, 3) ? damaged(random, bytes) : bytes;
}

function part(headers: string, body: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`--${BOUNDARY}\r\n${headers}\r\n\r\n`), body, Buffer.from('\r\n')]);
}
