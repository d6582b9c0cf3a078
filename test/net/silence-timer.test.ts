/** A peer counts as silent only if nothing of it waits to be read. */
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SilenceTimer } from '../../src/net/silence-timer.ts';
import { standStill } from '../support/stand-still.ts';

const SILENT_MS = 100;

test('what arrived while this process stood still is heard first', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [peer] = (await once(server, 'connection')) as [Socket];
  const events: string[] = [];
  const silent = new Promise<void>((resolve) => {
    const timer = new SilenceTimer(SILENT_MS, () => {
      events.push('silent');
      resolve();
    });
    peer.on('data', (chunk) => {
      events.push(String(chunk));
      timer.heard();
    });
    client.write('said before');
    standStill(3 * SILENT_MS);
  });
  const awake = setInterval(() => undefined, SILENT_MS);
  await silent;
  assert.equal(events, ['said before', 'silent']);
  clearInterval(awake);
  client.destroy();
  peer.destroy();
  server.close();
});

test('stopped in the turn in which it is due, it says nothing', async () => {
  let isSilent = false;
  const timer = new SilenceTimer(SILENT_MS, () => (isSilent = true));
  // Due later in the same list of timers.
  const stop = new Promise<void>((resolve) => {
    setTimeout(() => {
      timer.stop();
      setImmediate(resolve);
    }, SILENT_MS);
  });
  standStill(2 * SILENT_MS);
  await stop;
  assert.is(isSilent, false);
});

test.run();
