import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { once } from 'node:events';
import { request } from 'node:http';
import { gzipSync } from 'node:zlib';
import { LIMITS } from '../../src/protocol/generate.ts';
import { startStopwatch } from '../support/stopwatch.ts';
import { waitFor } from '../support/wait.ts';
import { ask, dial, readAll } from './ask.ts';
import { startScripted, type ScriptedListener } from './scripted.ts';

const PATH = '/v1/chat/completions';
const JSON_TYPE = { 'content-type': 'application/json' };
const SECRET = 'the-secret-prompt';

let listener: ScriptedListener;
test.before(async () => {
  listener = await startScripted();
});
test.after(() => listener.stop());

const post = (body: string | Buffer, headers: Record<string, string> = {}): ReturnType<typeof ask> =>
  ask(listener, PATH, { body, headers: { ...JSON_TYPE, ...headers } });

test('a body that is not JSON gets a 400 that does not quote it', async () => {
  const bodies = ['', '{', '[1,]', '{"a":}', SECRET, `{"messages": ${SECRET}}`, '\u0000', '{"a":1}x'];
  for (const body of [...bodies, Buffer.from([0x22, 0xff, 0x22]), Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22])]) {
    const answer = await post(body);
    assert.is(answer.status, 400, String(body));
    assert.is(answer.json().error.code, 'invalid_request');
    assert.not.ok(answer.text.includes(SECRET));
  }
  assert.not.ok(JSON.stringify(listener.logged).includes(SECRET));
  for (const body of ['null', '1', '"x"', '[]', 'true']) {
    assert.match((await post(body)).json().error.message, /must be a JSON object/);
  }
});

test('each error has an id that appears in exactly one log line', async () => {
  const answer = await post('{');
  const { id } = answer.json().error;
  assert.is(answer.headers['x-request-id'], id);
  const lines = listener.logged.filter((line) => line['id'] === id && line['level'] !== 'debug');
  assert.is(lines.length, 1);
  assert.is(lines[0]?.['route'], PATH);
});

test('a compressed body is refused, not decompressed', async () => {
  const answer = await post(gzipSync('{}'), { 'content-encoding': 'gzip' });
  assert.is(answer.status, 400);
  assert.match(answer.json().error.message, /compressed/);
});

test('nesting is limited before parsing', async () => {
  const nested = (depth: number, open: string, close: string): string =>
    `{"messages":[{"role":"user","content":"hi"}],"extra":${open.repeat(depth)}${close.repeat(depth)}}`;
  assert.is((await post(nested(63, '[', ']'))).status, 200);
  for (const body of [
    nested(64, '[', ']'),
    nested(64, '{"a":', '}'),
    nested(100_000, '[', ']'),
    '['.repeat(1_000_000),
  ]) {
    const answer = await post(body);
    assert.is(answer.status, 400);
    assert.match(answer.json().error.message, /nested deeper than 64/);
  }
  const quoted = JSON.stringify({ messages: [{ role: 'user', content: `\\"${'[{'.repeat(1000)}\\` }] });
  assert.is((await post(quoted)).status, 200, 'brackets in strings are text');
});

test('the number of values is limited before parsing', async () => {
  for (const piece of ['{}', '[]', '0', '{"a":1}']) {
    const listed = (count: number): string =>
      `{"messages":[{"role":"user","content":"hi"}],"extra":[${Array.from({ length: count }, () => piece).join(',')}]}`;
    assert.is((await post(listed(30_000))).status, 200, piece);
    const answer = await post(listed(100_001));
    assert.is(answer.status, 400, piece);
    assert.match(answer.json().error.message, /more than 100000 values/);
  }
  const commas = JSON.stringify({ messages: [{ role: 'user', content: ',[{'.repeat(200_000) }] });
  assert.is((await post(commas)).status, 200, 'commas in strings are text');
});

test('a body may arrive in small pieces, but not in too many', async () => {
  const send = async (characters: number): Promise<string> => {
    const socket = await dial(listener.port);
    socket.on('error', () => undefined);
    const body = `{"messages":[{"role":"user","content":"${'a'.repeat(characters)}"}]}`;
    socket.write(
      `POST ${PATH} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n`,
    );
    socket.write(`${Array.from(body, (byte) => `1\r\n${byte}\r\n`).join('')}0\r\n\r\n`);
    return readAll(socket);
  };
  assert.match(await send(60_000), /^HTTP\/1\.1 200 OK/);
  assert.match(await send(1_000_000), /^HTTP\/1\.1 400 [\s\S]*more than 65536 pieces/);
});

test('a body with a Content-Length above the limit is refused before it is sent', async () => {
  const req = request({ host: '127.0.0.1', port: listener.port, path: PATH, method: 'POST', agent: false });
  req.on('error', () => undefined);
  req.setHeader('content-type', 'application/json');
  req.setHeader('content-length', LIMITS.bodyBytes + 1);
  req.flushHeaders();
  const [res] = await once(req, 'response');
  assert.is(res.statusCode, 413);
  req.destroy();
});

test('a body that grows too large is refused, and the client can still read the error', async () => {
  const big = Buffer.alloc(LIMITS.bodyBytes + 1, 0x20);
  const whole = await post(big);
  assert.is(whole.status, 413);
  assert.is(whole.json().error.code, 'request_too_large');
  const chunked = await post(big, { 'transfer-encoding': 'chunked' });
  assert.is(chunked.status, 413);
  assert.ok(chunked.complete);
  // The same with fetch, which most clients use.
  const fetched = await fetch(listener.url + PATH, { method: 'POST', headers: JSON_TYPE, body: big });
  assert.is(fetched.status, 413);
  await fetched.text();
});

test('a client that keeps sending after its answer is cut off', async () => {
  const socket = await dial(listener.port);
  socket.write(
    `POST ${PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 99999999\r\n\r\n`,
  );
  const timer = setInterval(() => socket.write(' '.repeat(1000)), 20);
  const [from, taken] = [performance.now(), startStopwatch()];
  // With or without a reset; once() would reject on a reset.
  await new Promise((resolve) =>
    socket
      .on('error', () => undefined)
      .on('close', resolve)
      .resume(),
  );
  clearInterval(timer);
  const ms = performance.now() - from;
  assert.ok(ms > 5000 && taken.ms() < 30_000, `cut off after ${ms.toFixed(0)} ms`);
});

test('Expect: 100-continue: the body is requested only if the headers are acceptable', async () => {
  const talk = async (head: string): Promise<string> => {
    const socket = await dial(listener.port);
    let text = '';
    socket.on('data', (chunk) => (text += String(chunk)));
    const closed = once(socket, 'close');
    socket.write(
      `${head}\r\nhost: localhost\r\nconnection: close\r\nexpect: 100-continue\r\ncontent-type: application/json\r\n`,
    );
    const body = '{"messages":[{"role":"user","content":"hi"}]}';
    socket.write(`content-length: ${String(body.length)}\r\n\r\n`);
    await waitFor('the first line', () => text.includes('\r\n'));
    if (text.startsWith('HTTP/1.1 100')) socket.write(body);
    await closed;
    return text;
  };
  assert.match(await talk(`POST ${PATH} HTTP/1.1`), /^HTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 200 OK/);
  assert.match(await talk('POST /nowhere HTTP/1.1'), /^HTTP\/1.1 404/);
});

test('the total size of bodies is limited: one more is BUSY, and the budget is freed later', async () => {
  const small = await startScripted({ limits: { bodiesBytes: 300_000 } });
  try {
    const body = JSON.stringify({ messages: [{ role: 'user', content: 'x'.repeat(160_000) }] });
    const slow = await dial(small.port);
    slow.write(
      `POST ${PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${String(body.length)}\r\n\r\n`,
    );
    slow.write(body.slice(0, -1));
    const busy = await waitFor('the room to be taken', async () => {
      const answer = await ask(small, PATH, { body, headers: JSON_TYPE });
      return answer.status === 200 ? undefined : answer;
    });
    assert.is(busy.status, 429);
    assert.is(busy.headers['retry-after'], '1');
    assert.is(busy.json().error.code, 'rate_limit_exceeded');
    slow.destroy();
    await waitFor(
      'the room to come back',
      async () => (await ask(small, PATH, { body, headers: JSON_TYPE })).status === 200,
    );
    for (let i = 0; i < 20; i += 1) {
      assert.is((await ask(small, PATH, { body, headers: JSON_TYPE })).status, 200, 'nothing of it leaks');
    }
  } finally {
    await small.stop();
  }
});

test('one client may hold three quarters of the budget, and small bodies are always read', async () => {
  const shared = await startScripted({ limits: { bodiesBytes: 1_000_000 } });
  const asKey = (key: string): void => void Object.assign(shared.world, { admits: 'local', key });
  const send = (length: number): ReturnType<typeof ask> => {
    const body = JSON.stringify({ messages: [{ role: 'user', content: 'x'.repeat(length) }] });
    return ask(shared, PATH, { body, headers: JSON_TYPE });
  };
  const slow: Awaited<ReturnType<typeof dial>>[] = [];
  try {
    asKey('greedy');
    // Each takes 196,608 bytes, with room for another one.
    const body = 'x'.repeat(160_000);
    await waitFor('a refusal', async () => {
      const socket = await dial(shared.port);
      slow.push(socket);
      socket.on('error', () => undefined).resume();
      socket.write(
        `POST ${PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 170000\r\n\r\n${body}`,
      );
      return (await send(160_000)).status === 429;
    });
    assert.is((await send(30_000)).status, 200);
    asKey('other');
    assert.is((await send(160_000)).status, 200);
  } finally {
    for (const socket of slow) socket.destroy();
    await shared.stop();
  }
});

test('a client that disconnects in the middle of its body leaves nothing behind', async () => {
  const before = listener.backend.requests.length;
  const socket = await dial(listener.port);
  socket.write(
    `POST ${PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"mess`,
  );
  await waitFor('the request', () => listener.server.listening);
  socket.destroy();
  await waitFor('the log line', () =>
    listener.logged.some((line) => JSON.stringify(line).includes('the client went away')),
  );
  assert.is(listener.backend.requests.length, before);
  assert.is(listener.router.active + listener.router.waiting, 0);
});

test('two requests in one connection, and in one packet', async () => {
  const body = '{"messages":[{"role":"user","content":"hi"}]}';
  const one = `POST ${PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${String(body.length)}\r\n\r\n${body}`;
  const socket = await dial(listener.port);
  socket.write(one + one.replace('\r\n', '\r\nconnection: close\r\n'));
  const text = await readAll(socket);
  assert.is(text.match(/HTTP\/1\.1 200 OK/g)?.length, 2);
});

test.run();
