/** Hostile or broken clients. Limits are made small where a test would otherwise wait long. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { alive, MESSAGES, MIB, PATH, post, withListener } from './abuse-support.ts';
import { watchGrowth } from '../support/memory.ts';
import { startStopwatch } from '../support/stopwatch.ts';
import { waitFor } from '../support/wait.ts';
import { ask, dial, readAll } from './ask.ts';
import { FINISH, START, text } from './scripted.ts';

test('slowloris: slow headers, slow bodies and silent connections are cut off', async () => {
  await withListener({ limits: { headersMs: 300, requestMs: 600, checkMs: 50 } }, async (listener) => {
    const drip = async (first: string, next: string): Promise<{ text: string; ms: number }> => {
      const taken = startStopwatch();
      const socket = await dial(listener.port);
      socket.on('error', () => undefined);
      socket.write(first);
      const timer = setInterval(() => next !== '' && socket.writable && socket.write(next), 40);
      const answer = await readAll(socket);
      clearInterval(timer);
      return { text: answer, ms: taken.ms() };
    };
    const results = await Promise.all([
      drip('GET /livez HTTP/1.1\r\n', 'x: y\r\n'),
      drip(
        `POST ${PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n`,
        ' ',
      ),
      drip('', ''),
    ]);
    for (const { text: answer, ms } of results) {
      assert.match(answer, /^HTTP\/1\.1 408 /);
      assert.ok(ms < 5000, `${ms.toFixed(0)} ms`);
    }
    assert.is(listener.router.active + listener.router.waiting, 0);
  });
});

test('headers that are too large get 431 with an id', async () => {
  await withListener({}, async (listener) => {
    for (const header of [
      `x: ${'y'.repeat(20_000)}`,
      Array.from({ length: 2000 }, (_, i) => `x${String(i)}: yyyy`).join('\r\n'),
    ]) {
      const socket = await dial(listener.port);
      socket.write(`GET /livez HTTP/1.1\r\nhost: localhost\r\n${header}\r\n\r\n`);
      const answer = await readAll(socket);
      assert.match(answer, /^HTTP\/1\.1 431 Request Header Fields Too Large\r\n/);
      assert.match(answer, /x-request-id: [0-9a-f]{32}\r\n/);
      assert.is(JSON.parse(answer.split('\r\n\r\n')[1] ?? '').error.code, 'REQUEST_TOO_LARGE');
    }
    const long = await dial(listener.port);
    long.write(`GET /${'x'.repeat(20_000)} HTTP/1.1\r\nhost: localhost\r\n\r\n`);
    assert.match(await readAll(long), /^HTTP\/1\.1 431 /);
  });
});

test('invalid or ambiguous HTTP is refused and the connection closed', async () => {
  await withListener({}, async (listener) => {
    const smuggled = 'GET /smuggled HTTP/1.1\r\nhost: localhost\r\n\r\n';
    const attempts = [
      'nonsense\r\n\r\n',
      '\u0016\u0003\u0001\u0002\u0000',
      'GET /livez HTTP/9.9\r\nhost: localhost\r\n\r\n',
      'GET /livez HTTP/1.1\r\nhost: localhost\r\nbad header\r\n\r\n',
      'GET /livez HTTP/1.1\r\nhost: localhost\r\nx: a\u0000b\r\n\r\n',
      'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
      'GET /livez HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\nconnection: close\r\n\r\n',
      'GET /livez HTTP/1.1\r\nHost: localhost\r\nHOST: localhost\r\nconnection: close\r\n\r\n',
      `POST ${PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-length: -5\r\n\r\n`,
      `POST ${PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n${smuggled}`,
      `POST ${PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`,
      `POST ${PATH} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n${smuggled}`,
      `POST ${PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n`,
    ];
    for (const attempt of attempts) {
      const socket = await dial(listener.port);
      socket.on('error', () => undefined);
      socket.write(attempt, 'latin1');
      const answer = await readAll(socket);
      assert.match(answer, /^HTTP\/1\.1 4\d\d /, JSON.stringify(attempt));
      assert.not.ok(answer.includes('HTTP/1.1 2'), JSON.stringify(attempt));
    }
    assert.not.ok(JSON.stringify(listener.logged).includes('smuggled'), 'no second request was seen');
  });
});

test('garbage in the middle of a streamed answer ends the connection, not the daemon', async () => {
  await withListener(
    {
      script: async function* (_, { signal }) {
        yield START;
        for (;;) {
          yield text('x');
          await sleep(5, undefined, { signal });
        }
      },
    },
    async (listener) => {
      const socket = await dial(listener.port);
      socket.on('error', () => undefined);
      let answer = '';
      socket.on('data', (chunk) => (answer += String(chunk)));
      socket.write(post(JSON.stringify({ messages: MESSAGES, stream: true })));
      await waitFor('text', () => answer.includes('"x"'));
      const closed = once(socket, 'close');
      socket.write('\u0000garbage\r\n\r\n');
      await closed;
      assert.is(answer.match(/HTTP\/1\.1/g)?.length, 1, 'nothing was written into the stream');
      await waitFor('the generation to end', () => listener.router.active === 0);
    },
  );
});

test('the budget of a body is freed after parsing, except for the text of a running generation', async () => {
  await withListener(
    {
      limits: { bodiesBytes: 2 * MIB - 2000 },
      script: async function* (_, { signal }) {
        yield START;
        await once(signal, 'abort');
      },
    },
    async (listener) => {
      const padded = `${' '.repeat(MIB - 1000)}${JSON.stringify({ messages: MESSAGES })}`;
      const full = JSON.stringify({ messages: [{ role: 'user', content: 'x'.repeat(MIB - 1000) }] });
      const begin = async (body: string, active: number): Promise<Socket> => {
        const socket = await dial(listener.port);
        socket.write(post(body));
        await waitFor('its generation', () => listener.router.active === active);
        return socket;
      };
      const sockets = [await begin(padded, 1), await begin(padded, 2), await begin(padded, 3)];
      sockets.push(await begin(full, 4));
      const refused = await dial(listener.port);
      refused.write(post(full).replace('host:', 'connection: close\r\nhost:'));
      assert.match(await readAll(refused), /^HTTP\/1\.1 429 /);
      for (const socket of sockets) socket.destroy();
      await waitFor('their end', () => listener.router.active === 0);
      (await begin(full, 1)).destroy();
    },
  );
});

test('the values of requests that are being answered count towards the budget, not only their text', async () => {
  await withListener(
    {
      limits: { bodiesBytes: 6 * MIB },
      script: async function* (_, { signal }) {
        yield START;
        await once(signal, 'abort');
      },
    },
    async (listener) => {
      // 100 KB of text, and 3,000 objects.
      const many = JSON.stringify({ messages: Array.from({ length: 3000 }, () => ({ role: 'user', content: 'x' })) });
      const first = await dial(listener.port);
      first.write(post(many));
      await waitFor('its generation', () => listener.router.active === 1);
      const refused = await ask(listener, PATH, { body: many, headers: { 'content-type': 'application/json' } });
      assert.is(refused.status, 429);
      first.destroy();
      await waitFor('its end', () => listener.router.active === 0);
      const again = await dial(listener.port);
      again.write(post(many));
      await waitFor('another', () => listener.router.active === 1);
      again.destroy();
    },
  );
});

test('whole answers that one client does not read are bounded; small ones are answered all the same', async () => {
  const answer = 16 * MIB;
  await withListener(
    {
      limits: { answersBytes: 4 * answer },
      script: async function* () {
        yield START;
        yield text('x'.repeat(answer));
        yield FINISH;
      },
    },
    async (listener) => {
      const body = JSON.stringify({ messages: MESSAGES });
      const sockets: Socket[] = [];
      const status = async (): Promise<number> => {
        const { status: found } = await ask(listener, PATH, { body, headers: { 'content-type': 'application/json' } });
        return found;
      };
      for (let n = 1; n <= 3; n += 1) {
        const socket = await dial(listener.port);
        socket.on('error', () => undefined).pause();
        socket.write(post(body));
        sockets.push(socket);
        await waitFor('its answer', () => listener.backend.requests.length === n && listener.router.active === 0);
      }
      await waitFor('a refusal', async () => (await status()) === 429);
      for (let n = 0; n < 5; n += 1) assert.is(await status(), 429);
      await alive(listener);
      sockets[0]?.destroy();
      await waitFor('its bytes to be given back', async () => (await status()) === 200);
      // What was read counts no more.
      for (let n = 0; n < 5; n += 1) assert.is(await status(), 200);
      for (const socket of sockets) socket.destroy();
    },
  );
});

test('an exception in the code behind a request closes only its connection', async () => {
  await withListener({}, async (listener) => {
    const other = await dial(listener.port);
    const { requestEnded } = listener.services.metrics;
    listener.services.metrics.requestEnded = () => {
      throw new TypeError('a planted bug');
    };
    for (let i = 0; i < 10; i += 1) {
      const socket = await dial(listener.port);
      socket.on('error', () => undefined);
      socket.write('GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n');
      await readAll(socket);
    }
    listener.services.metrics.requestEnded = requestEnded;
    assert.not.ok(other.destroyed);
    other.destroy();
    const lines = listener.logged.filter(({ msg }) => msg === 'a connection failed and was closed');
    assert.equal(
      lines.map(({ level }) => level),
      ['warn'],
    );
  });
});

test('a connection with too many pipelined requests is cut off, and its requests end', async () => {
  let begun = 0;
  let ended = 0;
  await withListener(
    {
      script: async function* (_, { signal }) {
        begun += 1;
        try {
          yield START;
          await once(signal, 'abort');
        } finally {
          ended += 1;
        }
      },
    },
    async (listener) => {
      const socket = await dial(listener.port);
      socket.write(post(JSON.stringify({ messages: MESSAGES })).repeat(16));
      await waitFor('sixteen generations', () => begun === 16);
      assert.not.ok(socket.destroyed);
      socket.write(post(JSON.stringify({ messages: MESSAGES })).repeat(1000));
      assert.is(await readAll(socket), '');
      await waitFor('their end', () => ended === 16 && listener.router.active === 0);
      assert.is(begun, 16);
    },
  );
});

test('pipelined requests end with their connection and free their resources', async () => {
  const content = 'x'.repeat(120_000);
  await withListener(
    {
      limits: { bodiesBytes: 400_000 },
      script: async function* (_, { signal }) {
        yield START;
        await once(signal, 'abort');
      },
    },
    async (listener) => {
      for (let round = 0; round < 5; round += 1) {
        const socket = await dial(listener.port);
        socket.write(post(JSON.stringify({ messages: [{ role: 'user', content }] })).repeat(4));
        await waitFor('all four', () => listener.router.active === 4);
        socket.destroy();
        await waitFor('their end', () => listener.router.active === 0);
      }
      assert.is(listener.backend.requests.length, 20);
      assert.is(listener.logged.filter(({ msg }) => msg === 'request').length, 20, 'each has its line');
    },
  );
});

test('connections above the limit are dropped, and the others still work', async () => {
  await withListener({ limits: { connections: 50 } }, async (listener) => {
    const sockets = await Promise.all(
      Array.from({ length: 49 }, (_, i) => dial(listener.port, i % 2 === 0 ? '127.0.0.1' : '127.0.0.2')),
    );
    await alive(listener);
    const more = await Promise.all(Array.from({ length: 20 }, () => dial(listener.port)));
    const ends = await Promise.all(more.slice(1).map((socket) => readAll(socket)));
    assert.ok(ends.every((answer) => answer === ''));
    for (const socket of [...sockets, ...more]) socket.destroy();
    await waitFor('room', async () => {
      await alive(listener);
      return true;
    });
  });
});

test('one address gets three quarters of the connections, and another one still gets in', async () => {
  await withListener({ limits: { connections: 40 } }, async (listener) => {
    const sockets = await Promise.all(Array.from({ length: 30 }, () => dial(listener.port, '127.0.0.2')));
    const more = await Promise.all(Array.from({ length: 10 }, () => dial(listener.port, '127.0.0.2')));
    const ends = await Promise.all(more.map((socket) => readAll(socket)));
    assert.ok(ends.every((answer) => answer === ''));
    assert.ok(sockets.every((socket) => !socket.destroyed));
    await alive(listener);
    for (const socket of sockets) socket.destroy();
    await waitFor('its places', async () => {
      const again = await dial(listener.port, '127.0.0.2');
      again.write('GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n');
      return (await readAll(again)).startsWith('HTTP/1.1 200 ');
    });
  });
});

test('2,000 idle connections do not affect others', async () => {
  await withListener({}, async (listener) => {
    const sockets: Socket[] = [];
    for (let i = 0; i < 40; i += 1)
      sockets.push(...(await Promise.all(Array.from({ length: 50 }, () => dial(listener.port)))));
    const taken = startStopwatch();
    for (let i = 0; i < 20; i += 1) await alive(listener);
    assert.ok(taken.ms() / 20 < 250);
    for (const socket of sockets) socket.destroy();
  });
});

test('a flood of bodies: memory stays within the budget', async () => {
  await withListener({ limits: { bodiesBytes: 16 * MIB } }, async (listener) => {
    const piece = Buffer.alloc(MIB, 0x20);
    const grown = watchGrowth(250 * MIB);
    let worst = 0;
    const flood = async (): Promise<void> => {
      const socket = await dial(listener.port);
      socket.on('error', () => undefined).resume();
      socket.write(
        `POST ${PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${String(30 * MIB)}\r\n\r\n`,
      );
      for (let i = 0; i < 30 && socket.writable; i += 1) {
        await new Promise((resolve) => socket.write(piece, resolve));
        worst = Math.max(worst, await grown());
      }
      socket.destroy();
    };
    await Promise.all(Array.from({ length: 40 }, flood));
    assert.ok(worst < 250 * MIB, `${(worst / MIB).toFixed(0)} MiB for 1,200 MiB sent`);
  });
});

test('unusual methods, targets and headers never cause a 5xx or a hang', async () => {
  await withListener({}, async (listener) => {
    const methods = [
      'GET',
      'HEAD',
      'POST',
      'PUT',
      'PATCH',
      'DELETE',
      'OPTIONS',
      'TRACE',
      'PROPFIND',
      'PURGE',
      'M-SEARCH',
    ];
    const targets = [
      '/',
      '*',
      '/%',
      '/%00',
      '/v1/models/%',
      '/v1/models/%2e%2e%2f',
      '/..',
      '/v1/../livez',
      '/livez?',
      '/livez??&&=',
      '/readyz/%',
      `/readyz?${'exclude=x&'.repeat(500)}`,
      '/readyz/constructor',
      '/readyz?exclude=__proto__&verbose',
      '/v1/models/__proto__',
    ];
    for (const method of methods) {
      for (const target of targets) {
        const socket = await dial(listener.port);
        socket.write(
          `${method} ${target} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`,
        );
        const answer = await readAll(socket);
        assert.match(answer, /^HTTP\/1\.1 [24]\d\d /, `${method} ${target}`);
        assert.match(answer, /x-request-id: /i, `${method} ${target}`);
      }
    }
    const expecting = await dial(listener.port);
    expecting.write('GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nexpect: a-miracle\r\n\r\n');
    assert.match(await readAll(expecting), /^HTTP\/1\.1 417 Expectation Failed\r\nx-request-id: /);
    const expected = await dial(listener.port);
    expected.write('GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nexpect: 100-Continue\r\n\r\n');
    assert.match(await readAll(expected), /HTTP\/1\.1 200 OK\r\nx-request-id: /);
    const connect = await dial(listener.port);
    connect.write('CONNECT evil.example:80 HTTP/1.1\r\nhost: localhost\r\n\r\n');
    assert.not.match(await readAll(connect), /HTTP\/1\.1 2/);
    const upgrade = await dial(listener.port);
    upgrade.write('GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n');
    const [answer] = (await once(upgrade, 'data')) as [Buffer];
    assert.match(answer.toString('latin1'), /^HTTP\/1\.1 200 OK\r\n/, 'no other protocol is spoken');
    upgrade.destroy();
  });
});

test.run();
