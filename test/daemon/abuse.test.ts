/**
 * Attacks on a running daemon with its default limits. During an attack `/livez` answers and the daemon's memory
 * stays bounded; afterwards the daemon works as before. Tests of single limits, made small, are in
 * test/http/abuse.test.ts.
 */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ask } from '../http/ask.ts';
import { compiled } from '../support/compiled.ts';
import { spawnDaemon, type DaemonProcess, type DaemonProcessOptions } from '../support/daemon.ts';
import { makeHome, type Home } from '../support/home.ts';
import { waitFor } from '../support/wait.ts';

const MIB = 1024 * 1024;
const CHAT = '/v1/chat/completions';
/**
 * Maximum CPU time that the daemon may spend on other work before it answers `/livez`. CPU time, because the machine
 * may be busy otherwise. On a quiet machine it is at most 2 s, for an answer that waits while a hundred others fill
 * their sockets; 3.4 s if both hyperthreads of a core are busy.
 */
const LIVE_MS = 8000;
const PATIENT = { timeoutMs: 180_000 };
/** Budget of request bodies, plus some parsed ones, plus headroom for the garbage collector. */
const MEMORY_MIB = 600;

interface Target {
  readonly home: Home;
  readonly daemon: DaemonProcess;
  readonly port: number;
}

let real: Target;
test.before(async () => {
  real = await start();
});
test.after(() => end(real));

async function start(options: DaemonProcessOptions = {}): Promise<Target> {
  const home = await makeHome();
  const daemon = await spawnDaemon(home, options).settled();
  return { home, daemon, port: Number((await daemon.client.status()).http?.split(':').at(-1)) };
}

async function end({ home, daemon }: Target): Promise<void> {
  daemon.kill('SIGTERM');
  const { code } = await daemon.exit;
  await home.remove();
  assert.is(code, 0);
  assert.equal(daemon.stray, []);
}

function memoryMib(pid: number): number {
  const path = `/proc/${String(pid)}/status`;
  const kib = existsSync(path)
    ? /^VmRSS:\s+(\d+)/m.exec(readFileSync(path, 'utf8'))?.[1]
    : execFileSync('ps', ['-o', 'rss=', '-p', String(pid)], { encoding: 'utf8' }).trim();
  return Number(kib) / 1024;
}

/** CPU time of the process in ms; wall-clock time where the system does not report it. */
function busyMs(pid: number): number {
  const path = `/proc/${String(pid)}/stat`;
  if (!existsSync(path)) return performance.now();
  const stat = readFileSync(path, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/** Monitors the daemon during `attack`, prints the measurements and checks the limits. */
async function survives({ daemon, port }: Target, what: string, attack: () => Promise<void>): Promise<void> {
  const livez = async (): Promise<number> => {
    const from = busyMs(daemon.pid);
    assert.is((await ask({ port }, '/livez')).status, 200);
    return busyMs(daemon.pid) - from;
  };
  const before = memoryMib(daemon.pid);
  let worstMib = before;
  let worstMs = 0;
  let asked = 0;
  let isOver = false;
  const watch = async (): Promise<void> => {
    while (!isOver || asked < 2) {
      worstMs = Math.max(worstMs, await livez());
      worstMib = Math.max(worstMib, memoryMib(daemon.pid));
      asked += 1;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  const watching = watch();
  try {
    await attack();
  } finally {
    isOver = true;
    await watching;
  }
  console.log(
    `${what}: /livez asked ${String(asked)} times, answered after at most ${worstMs.toFixed(0)} ms of work; memory ${before.toFixed(0)} to at most ${worstMib.toFixed(0)} MiB`,
  );
  assert.ok(worstMs < LIVE_MS, `/livez took ${worstMs.toFixed(0)} ms of work`);
  assert.ok(worstMib < before + MEMORY_MIB, `${worstMib.toFixed(0)} MiB`);
}

/** Asserts that the daemon still answers an ordinary request. */
async function serves({ port }: Target): Promise<void> {
  const body = { messages: [{ role: 'user', content: 'Hello' }], max_completion_tokens: 4 };
  const answer = await ask({ port }, CHAT, { body });
  assert.is(answer.status, 200, answer.text);
  assert.ok(answer.json().usage.completion_tokens > 0);
}

/** Opens a connection that ignores errors. */
async function dial(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  return socket;
}

async function dialMany(port: number, count: number): Promise<Socket[]> {
  const sockets: Socket[] = [];
  while (sockets.length < count) {
    const some = Math.min(100, count - sockets.length);
    sockets.push(...(await Promise.all(Array.from({ length: some }, () => dial(port)))));
  }
  return sockets;
}

function head(length: number | 'chunked'): string {
  const how = length === 'chunked' ? 'transfer-encoding: chunked' : `content-length: ${String(length)}`;
  return `POST ${CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n${how}\r\n\r\n`;
}

/** Writes and waits until the data is accepted or the connection is closed. Returns false if it is closed. */
async function push(socket: Socket, bytes: string | Buffer): Promise<boolean> {
  if (!socket.writable) return false;
  if (socket.write(bytes)) return true;
  await new Promise<void>((resolve) => {
    const settle = (): void => {
      socket.off('drain', settle).off('close', settle);
      resolve();
    };
    socket.on('drain', settle).on('close', settle);
  });
  return socket.writable;
}

/** All data received until the connection is closed. */
function answerOf(socket: Socket): Promise<string> {
  let text = '';
  socket.on('data', (chunk) => (text += String(chunk)));
  return new Promise((resolve) => {
    if (socket.destroyed) resolve(text);
    else socket.once('close', () => resolve(text));
  });
}

test('slowloris: 200 requests whose headers never end, 200 whose bodies do not', async () => {
  const { port } = real;
  await survives(real, 'slowloris', async () => {
    const headers = await dialMany(port, 200);
    const bodies = await dialMany(port, 200);
    const answers = headers.map(answerOf);
    for (const socket of headers) socket.write('GET /livez HTTP/1.1\r\nhost: localhost\r\n');
    for (const socket of bodies) socket.resume().write(head(1_000_000));
    const drip = setInterval(() => {
      for (const socket of headers) if (socket.writable) socket.write('x: y\r\n');
      for (const socket of bodies) if (socket.writable) socket.write(' ');
    }, 500);
    try {
      await serves(real);
      // The header timeout is ten seconds, and Node checks every two.
      const all = await Promise.all(answers);
      assert.ok(all.every((text) => text.startsWith('HTTP/1.1 408 ')));
      assert.ok(
        bodies.every((socket) => !socket.destroyed),
        'a slow client is not an attack: a body may take two minutes',
      );
      await serves(real);
    } finally {
      clearInterval(drip);
      for (const socket of bodies) socket.destroy();
    }
  });
  await serves(real);
});

test('endless headers', async () => {
  const { port } = real;
  const piece = 'y'.repeat(64 * 1024);
  await survives(real, 'oversize headers', async () => {
    for (const opening of ['GET /livez HTTP/1.1\r\nhost: localhost\r\nx: ', 'GET /', 'GET /livez HTTP/1.1\r\n']) {
      const sockets = await dialMany(port, 50);
      const answers = sockets.map(answerOf);
      await Promise.all(
        sockets.map(async (socket) => {
          const lines = opening.endsWith('\r\n') ? `x: y\r\n`.repeat(10_000) : piece;
          await push(socket, opening);
          for (let i = 0; i < 32; i += 1) if (!(await push(socket, lines))) break;
        }),
      );
      for (const text of await Promise.all(answers)) assert.match(text, /^(HTTP\/1\.1 431 |$)/);
    }
  });
  await serves(real);
});

test('huge bodies that are expensive to parse', async () => {
  const { port } = real;
  const LENGTH = 31 * MIB;
  /** Repeats `piece` up to the maximum accepted body length. */
  const filled = (before: string, piece: string, after: string): Buffer => {
    const middle = Buffer.alloc(
      Math.floor((LENGTH - before.length - after.length) / piece.length) * piece.length,
      piece,
    );
    return Buffer.concat([Buffer.from(before), middle, Buffer.from(after)]);
  };
  const keys = (): Buffer => {
    const names = Array.from({ length: 2_000_000 }, (_, i) => `"k${String(i)}":0`);
    return Buffer.from(`{${names.join(',')}}`);
  };
  const bodies: [what: string, body: Buffer, expected: RegExp][] = [
    ['objects', filled('{"messages":[', '{},', '{}]}'), /^HTTP\/1\.1 400 /],
    ['keys', keys(), /^HTTP\/1\.1 400 /],
    ['depth', filled('', '[', ''), /^HTTP\/1\.1 400 /],
    ['one number', filled('{"seed":', '1', '}'), /^HTTP\/1\.1 400 /],
    ['escapes', filled('{"messages":"', '\\u00e9', '"}'), /^HTTP\/1\.1 400 /],
    ['noughts', Buffer.alloc(LENGTH), /^HTTP\/1\.1 400 /],
    // Tokenising it would keep the engine busy for minutes.
    ['prompt', filled('{"messages":[{"role":"user","content":"', 'word ', '"}]}'), /^HTTP\/1\.1 400 /],
  ];
  for (const [what, body, expected] of bodies) {
    await survives(real, `31 MiB of ${what}`, async () => {
      const sockets = await dialMany(port, 1);
      const answers = sockets.map(answerOf);
      await Promise.all(
        sockets.map(async (socket) => {
          await push(socket, head(body.length).replace('\r\n', '\r\nconnection: close\r\n'));
          for (let at = 0; at < body.length; at += MIB) if (!(await push(socket, body.subarray(at, at + MIB)))) break;
        }),
      );
      for (const text of await Promise.all(answers)) assert.match(text, expected);
    });
  }
  await serves(real);
});

test('bodies that are too large, and bodies in tiny pieces', async () => {
  const { port } = real;
  await survives(real, 'bodies that say or turn out to be too large', async () => {
    const said = await dialMany(port, 20);
    for (const socket of said) socket.write(head(1e12));
    const grown = await dialMany(port, 4);
    const chunk = `100000\r\n${' '.repeat(MIB)}\r\n`;
    const answers = [...said, ...grown].map(answerOf);
    await Promise.all(
      grown.map(async (socket) => {
        await push(socket, head('chunked'));
        for (let i = 0; i < 64; i += 1) if (!(await push(socket, chunk))) break;
      }),
    );
    for (const text of await Promise.all(answers)) assert.match(text, /^(HTTP\/1\.1 413 |$)/);
  });
  await survives(real, 'bodies in pieces of one byte', async () => {
    const sockets = await dialMany(port, 4);
    const answers = sockets.map(answerOf);
    const pieces = '1\r\n \r\n'.repeat(10_000);
    await Promise.all(
      sockets.map(async (socket) => {
        await push(socket, head('chunked'));
        for (let i = 0; i < 100; i += 1) if (!(await push(socket, pieces))) break;
      }),
    );
    for (const text of await Promise.all(answers)) assert.match(text, /^(HTTP\/1\.1 400 |$)/);
  });
  await serves(real);
});

test('5,000 silent connections', async () => {
  const { port } = real;
  const files = /^Max open files\s+(\d+)/m;
  const most = existsSync('/proc/self/limits')
    ? Number(files.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1])
    : 4096;
  const count = Math.min(5000, most - 500);
  if (count < 5000) console.log(`only ${String(count)} connections: this process may open ${String(most)} files`);
  await survives(real, `${String(count)} idle connections`, async () => {
    const sockets = await dialMany(port, count);
    assert.ok(
      sockets.every((socket) => !socket.destroyed),
      'all are let in',
    );
    const closed = Promise.all(sockets.map(answerOf));
    await serves(real);
    const answers = await closed;
    assert.ok(
      answers.every((text) => text.startsWith('HTTP/1.1 408 ')),
      'and shown out after ten seconds',
    );
  });
  await serves(real);
});

test('garbage as fast as it can be sent', async () => {
  const { port } = real;
  const garbage = Buffer.alloc(MIB);
  for (let i = 0; i < garbage.length; i += 1) garbage[i] = (i * 2_654_435_761) >>> 13;
  const SECONDS = 3;
  const BYTES = 300 * MIB;
  let sent = 0;
  let connections = 0;
  const from = performance.now();
  const goesOn = (): boolean => sent < BYTES || performance.now() - from < SECONDS * 1000;
  await survives(real, 'garbage', async () => {
    const one = async (opening: string): Promise<void> => {
      while (goesOn()) {
        const socket = await dial(port);
        socket.resume();
        connections += 1;
        await push(socket, opening);
        for (let i = 0; i < 31 && goesOn(); i += 1) {
          if (!(await push(socket, garbage))) break;
          sent += garbage.length;
        }
        socket.destroy();
      }
    };
    // Garbage alone, as a body, and as a body that begins like JSON.
    const openings = ['', head(32 * MIB), `${head(32 * MIB)}{"messages":[{"role":"user","content":"`];
    await Promise.all([...openings, ...openings].map(one));
  });
  const seconds = (performance.now() - from) / 1000;
  console.log(
    `garbage: ${String(sent / MIB)} MiB over ${String(connections)} connections in ${seconds.toFixed(1)} s, ${(sent / MIB / seconds).toFixed(0)} MiB/s`,
  );
  await waitFor('the daemon to have nothing under way', async () => {
    const { queue } = await real.daemon.client.health();
    return queue.active + queue.waiting === 0;
  });
  await serves(real);
});

test('answers that clients do not read', async () => {
  const scripted = await start({
    entry: compiled(fileURLToPath(new URL('scripted-daemon.ts', import.meta.url))),
    args: [],
  });
  const { port, daemon } = scripted;
  try {
    await survives(scripted, '100 streams and 20,000 requests with unread answers', async () => {
      const streams = await dialMany(port, 100);
      const pipelined = await dialMany(port, 20);
      try {
        const flood = JSON.stringify({
          model: 'flood',
          messages: [{ role: 'user', content: 'x' }],
          stream: true,
          max_completion_tokens: 1_000_000,
        });
        for (const socket of streams) socket.pause().write(head(flood.length) + flood);
        await waitFor('all to be answered', async () => (await daemon.client.health()).queue.active === 100, PATIENT);
        const requests = 'GET /v1/runtime/health HTTP/1.1\r\nhost: localhost\r\n\r\n'.repeat(1000);
        for (const socket of pipelined) socket.pause().write(requests);
        // The daemon waits for the slow readers and has nothing else to do.
        await waitFor(
          'the daemon to rest',
          async () => ((await daemon.client.health()).resources.cpu_percent ?? 100) < 15,
          {
            ...PATIENT,
            intervalMs: 500,
          },
        );
      } finally {
        for (const socket of [...streams, ...pipelined]) socket.destroy();
      }
      await waitFor('the generations to end', async () => (await daemon.client.health()).queue.active === 0, PATIENT);
    });
    const after = await ask({ port }, CHAT, { body: { messages: [{ role: 'user', content: 'x' }] } });
    assert.is(after.status, 200);
  } finally {
    await end(scripted);
  }
});

test.run();
