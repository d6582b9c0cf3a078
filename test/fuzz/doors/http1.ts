/** Target `http1`: valid and broken heads, chunked bodies and pipelines, cut anywhere. A 5xx is a finding. */
import { CONTROL_ROUTES, HTTP_ROUTES } from '../../../src/protocol/routes.ts';
import type { Random } from '../random.ts';
import { cut, damaged, exchange, once, randomBytes } from './bytes.ts';
import type { Door } from './doors.ts';

const CASES = 200_000;
const PATIENCE_MS = 40;
const END = 'GET /livez?end HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n';

const METHODS = [
  'GET',
  'HEAD',
  'POST',
  'POST',
  'PUT',
  'OPTIONS',
  'CONNECT',
  'TRACE',
  'get',
  'PRI',
  '',
  'G\u0000T',
  'M-SEARCH',
];
const TARGETS: readonly string[] = [
  // Each call of that one would start a process that works for a minute.
  ...Object.values(HTTP_ROUTES).filter((path) => path !== HTTP_ROUTES.runtimeDoctor),
  ...Object.values(CONTROL_ROUTES),
  ...['/', '*', '', '//', '/%', '/%00', '/%2e%2e/', '/v1/models/%ff', '/readyz/engine?verbose', '/readyz?exclude=%00'],
  ...[
    'http://localhost/livez',
    'http://evil.example/livez',
    'localhost:80',
    '/livez#a',
    `/${'a'.repeat(2000)}`,
    '/a b',
  ],
];
const HEADERS: readonly string[] = [
  ...['host: localhost', 'host: evil.example', 'host:', 'Host: localhost, evil', 'host: [::1', 'origin: null'],
  ...['content-type: application/json', 'content-type: text/plain', 'content-length: 2', 'content-length: 0'],
  ...['content-length: 2, 2', 'content-length: +2', 'content-length: 99999999999999999999', 'content-length: 0x2'],
  ...['transfer-encoding: chunked', 'transfer-encoding: chunked, chunked', 'transfer-encoding: identity'],
  ...[
    'Transfer-Encoding : chunked',
    'transfer-encoding: \tchunked',
    'transfer-encoding: gzip, chunked',
    'te: trailers',
  ],
  ...['expect: 100-continue', 'expect: banana', 'expect: 100-continue, banana', 'connection: keep-alive'],
  ...['connection: close', 'connection: upgrade', 'upgrade: websocket', 'upgrade: h2c', 'content-encoding: gzip'],
  ...[
    'http2-settings: AAMAAABk',
    'authorization: Bearer x',
    'authorization: Basic',
    'x-api-key: svc_',
    'x-api-key: a b',
  ],
  ...[
    ' folded: line',
    'no colon',
    ': no name',
    'a\u0000b: c',
    'a: b\u0000c',
    'a: \u00ff',
    'trailer: x',
    `x: ${'y'.repeat(500)}`,
  ],
];
const BODIES = [
  '{}',
  '',
  'null',
  '{"messages":[]}',
  '{"model":"x","messages":[{"role":"user","content":"a"}],"max_tokens":0}',
];
const SIZES = [
  '0',
  '1',
  '2',
  'a',
  'A',
  'fffffff',
  'ffffffffffffffffff',
  '-1',
  '0x2',
  '2;x=y',
  `2;${'e'.repeat(300)}`,
  '',
  ' 2',
  '2 ',
];

export const http1: Door = {
  name: 'http1',
  cases: CASES,
  isShipped: true,
  open: (daemon) =>
    Promise.resolve({
      play: async (random) => {
        const requests = Array.from({ length: 1 + random.below(4) }, () => request(random)).join('');
        let bytes: Buffer = Buffer.from(once(random, 4) ? requests : requests + END, 'latin1');
        if (once(random, 4)) bytes = damaged(random, bytes);
        if (once(random, 10)) bytes = Buffer.from(bytes.subarray(0, random.below(bytes.length + 1)));
        const answer = await exchange({
          port: daemon.httpPort,
          pieces: cut(random, bytes),
          ending: random.of(['end', 'destroy', 'reset']),
          isAnswered: () => false,
          patienceMs: PATIENCE_MS,
        });
        const [bug] = /HTTP\/1\.1 5\d\d [^\r]*/.exec(answer.toString('latin1')) ?? [];
        return bug === undefined ? null : `${bug} to ${JSON.stringify(bytes.toString('latin1'))}`;
      },
      close: () => undefined,
    }),
};

function request(random: Random): string {
  const line = `${random.of(METHODS)} ${random.of(TARGETS)} ${once(random, 8) ? random.of(['HTTP/1.0', 'HTTP/2.0', 'HTTP/9.9', '']) : 'HTTP/1.1'}`;
  const headers = once(random, 10) ? [] : ['host: localhost'];
  for (let count = random.below(5); count > 0; count -= 1) headers.push(random.of(HEADERS));
  const body = random.of(BODIES);
  let sent = '';
  switch (random.below(4)) {
    case 0:
      headers.push('content-type: application/json', 'transfer-encoding: chunked');
      sent = chunked(random, body);
      break;
    case 1:
      headers.push(
        'content-type: application/json',
        `content-length: ${String(body.length + (once(random, 8) ? random.below(9) - 4 : 0))}`,
      );
      sent = body;
      break;
    case 2:
      sent = once(random, 4) ? randomBytes(random, 30).toString('latin1') : '';
      break;
  }
  const newline = once(random, 20) ? random.of(['\n', '\r', '\r\r\n']) : '\r\n';
  return [line, ...headers, '', sent].join(newline);
}

function chunked(random: Random, body: string): string {
  let text = '';
  for (let at = 0; at < body.length;) {
    const piece = body.slice(at, at + 1 + random.below(20));
    at += piece.length;
    const size = once(random, 12) ? random.of(SIZES) : piece.length.toString(16);
    text += `${size}\r\n${piece}${once(random, 20) ? '' : '\r\n'}`;
  }
  return `${text}0\r\n${once(random, 6) ? 'x: y\r\ncontent-length: 3\r\n' : ''}${once(random, 20) ? '' : '\r\n'}`;
}
