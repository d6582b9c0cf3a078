/** A refusal that is sent before the request's body has arrived reaches a client that is still sending. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { setTimeout as sleep } from 'node:timers/promises';
import { waitFor } from '../support/wait.ts';
import { dial, readAll } from './ask.ts';
import { startScripted } from './scripted.ts';

const PIECE = Buffer.alloc(64 * 1024, ' ');

function head(connection: string, length: number): string {
  return `POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: ${connection}\r\ncontent-length: ${String(length)}\r\n\r\n`;
}

for (const connection of ['close', 'keep-alive']) {
  test(`connection: ${connection}: a client that sends for 4 s and reads only then`, async () => {
    const listener = await startScripted({});
    try {
      const socket = await dial(listener.port);
      socket.on('error', () => undefined).pause();
      const pieces = 8;
      const large = Buffer.alloc(10 * PIECE.length, ' ');
      socket.write(head(connection, 1000 + pieces * large.length));
      socket.write('['.repeat(1000)); // nested too deep: refused at once
      for (let sent = 0; sent < pieces && !socket.destroyed; sent += 1) {
        await new Promise((resolve) => socket.write(large, resolve));
        await sleep(500); // the client's pace
      }
      let answer = '';
      socket.on('data', (chunk) => (answer += String(chunk))).resume();
      await waitFor('the answer', () => answer.includes('\r\n\r\n') || socket.closed);
      assert.match(answer, /^HTTP\/1\.1 400 /);
      socket.destroy();
    } finally {
      await listener.stop();
    }
  });
}

test('a client that stops sending is cut off, and holds nothing of the budget for bodies meanwhile', async () => {
  const listener = await startScripted({ limits: { bodiesBytes: 1024 * 1024 } });
  try {
    const socket = await dial(listener.port);
    socket.on('error', () => undefined);
    socket.write(head('keep-alive', 10_000_000));
    socket.write(Buffer.concat([PIECE, Buffer.from('['.repeat(1000))]));
    const answer = readAll(socket);
    assert.match(await answer, /^HTTP\/1\.1 400 /);
    await waitFor('the connection to be closed', () => socket.destroyed);
  } finally {
    await listener.stop();
  }
});

test.run();
