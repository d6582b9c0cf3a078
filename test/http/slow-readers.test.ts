/** Clients that read their answers slowly, late or never. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { watchGrowth } from '../support/memory.ts';
import { waitFor } from '../support/wait.ts';
import { MESSAGES, MIB, PATH, post, withListener } from './abuse-support.ts';
import { ask, dial, readAll } from './ask.ts';
import { FINISH, hello, START, text } from './scripted.ts';

test('a client that never reads holds bounded memory, then is cut off', async () => {
  let produced = 0;
  await withListener(
    {
      limits: { stallMs: 1000 },
      script: async function* () {
        yield START;
        for (;;) {
          produced += 16 * 1024;
          yield text('x'.repeat(16 * 1024));
        }
      },
    },
    async (listener) => {
      const sockets: Socket[] = [];
      const growth = watchGrowth(250 * MIB);
      for (let i = 0; i < 50; i += 1) {
        const socket = await dial(listener.port);
        socket.on('error', () => undefined).pause();
        socket.write(post(JSON.stringify({ messages: MESSAGES, stream: true })));
        sockets.push(socket);
      }
      let grown = 0;
      await waitFor('all to be given up', async () => {
        grown = Math.max(grown, (await growth()) / MIB);
        return listener.backend.requests.length === 50 && listener.router.active === 0;
      });
      assert.ok(produced < 50 * 8 * MIB, `${String(produced / MIB)} MiB were produced`);
      assert.ok(grown < 250, `${grown.toFixed(0)} MiB more memory for both ends`);
      assert.ok(listener.logged.some((line) => JSON.stringify(line).includes('stopped reading')));
      for (const socket of sockets) socket.destroy();
    },
  );
});

test('many choices that wait for a slow reader cause no warning', async () => {
  const warnings: Error[] = [];
  const onWarning = (warning: Error): void => void warnings.push(warning);
  process.on('warning', onWarning);
  await withListener(
    {
      script: async function* () {
        yield START;
        for (let n = 0; n < 4; n += 1) yield text('x'.repeat(MIB));
        yield FINISH;
      },
    },
    async (listener) => {
      const socket = await dial(listener.port);
      socket.pause();
      socket.write(post(JSON.stringify({ messages: MESSAGES, stream: true, n: 16 })));
      await waitFor('all choices', () => listener.router.active === 16);
      socket.resume();
      await waitFor('their ends', () => listener.router.active === 0);
      socket.destroy();
    },
  );
  process.off('warning', onWarning);
  assert.equal(warnings, []);
});

test('an unread whole answer does not keep a generation alive', async () => {
  await withListener({}, async (listener) => {
    const sockets = await Promise.all(Array.from({ length: 10 }, () => dial(listener.port)));
    for (const socket of sockets) {
      socket.pause();
      for (let i = 0; i < 10; i += 1) socket.write(post(JSON.stringify({ messages: MESSAGES })));
    }
    await waitFor('the answers', () => listener.backend.requests.length === 100);
    await waitFor('the router', () => listener.router.active + listener.router.waiting === 0);
    for (const socket of sockets) socket.destroy();
  });
});

/** More than the socket buffers of both ends hold. */
const LARGE = 8 * MIB;

test('an unread whole answer, and the unread end of a stream, are cut off', async () => {
  await withListener(
    {
      limits: { stallMs: 500 },
      script: async function* () {
        yield START;
        yield text('x'.repeat(LARGE));
        yield FINISH;
      },
    },
    async (listener) => {
      for (const stream of [false, true]) {
        const socket = await dial(listener.port);
        socket.on('error', () => undefined).pause();
        socket.write(post(JSON.stringify({ messages: MESSAGES, stream })));
        await waitFor('its generation', () => listener.router.active === 0 && listener.backend.requests.length > 0);
        const ended = (): number => listener.world.ended.filter((line) => line.startsWith(PATH)).length;
        await waitFor('its cut', () => ended() === (stream ? 2 : 1));
        socket.destroy();
      }
    },
  );
});

test('stored responses that are read at the same time have the budget of the bodies', async () => {
  await withListener({ limits: { bodiesBytes: 4 * MIB } }, async (listener) => {
    listener.backend.script = async function* () {
      yield START;
      yield text('x'.repeat(MIB));
      yield FINISH;
    };
    const { id } = (await ask(listener, '/v1/responses', { body: { input: 'Hi', background: true } })).json();
    await listener.services.background.running(id, 'address:127.0.0.1').then((run) => run?.finished);
    const path = `/v1/responses/${String(id)}?stream=true`;
    const sockets: Socket[] = [];
    const busy = await waitFor('a refusal', async () => {
      const socket = await dial(listener.port);
      sockets.push(socket);
      socket.on('error', () => undefined).pause();
      socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`);
      for (const read of [`/v1/responses/${String(id)}`, `/v1/responses/${String(id)}/input_items`, path]) {
        const answer = await ask(listener, read);
        if (answer.status === 429) return answer;
      }
      return undefined;
    });
    assert.match(busy.text, /too many large requests at once/);
    assert.ok(sockets.length < 5);
    assert.is((await ask(listener, `/v1/responses/${String(id)}`, { method: 'DELETE' })).status, 429);
    for (const socket of sockets) socket.destroy();
    await waitFor('its bytes to be given back', async () => (await ask(listener, path)).status === 200);
  });
});

test('a background response that cannot be answered is not started', async () => {
  await withListener({ limits: { answersBytes: MIB } }, async (listener) => {
    const body = JSON.stringify({ input: 'Hi', instructions: 'x'.repeat(16 * 1024), background: true });
    const created: number[] = [];
    const create = async (): Promise<number> => {
      const { status } = await ask(listener, '/v1/responses', {
        body,
        headers: { 'content-type': 'application/json' },
      });
      created.push(status);
      return status;
    };
    listener.backend.script = async function* () {
      yield START;
      yield text('x'.repeat(16 * MIB));
      yield FINISH;
    };
    const socket = await dial(listener.port);
    socket.on('error', () => undefined).pause();
    socket.write(post(JSON.stringify({ messages: MESSAGES })));
    await waitFor('its answer', () => listener.backend.requests.length === 1 && listener.router.active === 0);
    listener.backend.script = hello;
    await waitFor('a refusal', async () => (await create()) === 429);
    for (let n = 0; n < 5; n += 1) assert.is(await create(), 429);
    socket.destroy();
    await waitFor('its bytes to be given back', async () => (await create()) === 200);
    const started = created.filter((status) => status === 200).length;
    await waitFor('their answers', () => {
      const { requests } = listener.backend;
      return requests.length > started && listener.router.active + listener.router.waiting === 0;
    });
    assert.is(listener.backend.requests.length, 1 + started);
  });
});

test('a whole answer that is read slowly is not cut off', async () => {
  // Progress shows only after several pauses, each of which is longer on a busy machine.
  const STALL_MS = 3000;
  await withListener(
    {
      // A Unix socket, because over TCP progress shows only in steps of megabytes.
      control: true,
      limits: { stallMs: STALL_MS },
      script: async function* () {
        yield START;
        yield text('x'.repeat(LARGE));
        yield FINISH;
      },
    },
    async (listener) => {
      const socket = connect(listener.socketPath);
      socket.write(post(JSON.stringify({ messages: MESSAGES })).replace('host:', 'connection: close\r\nhost:'));
      let bytes = 0;
      const from = performance.now();
      for await (const chunk of socket) {
        bytes += (chunk as Buffer).length;
        await sleep(50);
      }
      assert.ok(
        performance.now() - from > STALL_MS,
        'longer than the stall timeout in total, with much shorter pauses',
      );
      assert.ok(bytes > LARGE, `${String(bytes)} of ${String(LARGE)} bytes`);
    },
  );
});

test('a pipelined answer that waits behind a long one is not cut off', async () => {
  let finish = (): void => undefined;
  const long = new Promise<void>((resolve) => (finish = resolve));
  await withListener(
    {
      limits: { stallMs: 1000 },
      script: async function* ({ max_tokens }) {
        yield START;
        if (max_tokens === 1) await long;
        yield text('x'.repeat(MIB));
        yield FINISH;
      },
    },
    async (listener) => {
      const socket = await dial(listener.port);
      const answered = readAll(socket);
      const first = post(JSON.stringify({ messages: MESSAGES, max_completion_tokens: 1 }));
      socket.write(first + post(JSON.stringify({ messages: MESSAGES })).replace('host:', 'connection: close\r\nhost:'));
      await waitFor('the second', () => listener.backend.requests.length === 2 && listener.router.active === 1);
      // Three times the stall timeout.
      await sleep(3000);
      finish();
      assert.is((await answered).match(/HTTP\/1\.1 200/g)?.length, 2);
    },
  );
});

test.run();
