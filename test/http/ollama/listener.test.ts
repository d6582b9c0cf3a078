/** `ollama.listen`: a daemon that cannot have the address says which setting it is, and does not start. */
import { once } from 'node:events';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { configure, makeHome, type Home } from '../../support/home.ts';
import { svc, type SvcResult } from '../../support/svc.ts';

let home: Home;
let taken: Server;
test.before(async () => {
  home = await makeHome();
  taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
});
test.after(async () => {
  taken.close();
  await home.remove();
});

async function serveOn(listen: string): Promise<SvcResult> {
  configure(home, { ollama: { listen } });
  return await svc(['serve'], { home });
}

test('a port that another program has', async () => {
  const address = `127.0.0.1:${String((taken.address() as AddressInfo).port)}`;
  const { code, stderr } = await serveOn(address);
  assert.is(code, 78);
  assert.ok(stderr.includes(`another program listens on ${address}`), stderr);
  assert.match(stderr, /ollama\.listen/);
});

test('an address that other machines can reach, without a key', async () => {
  const { code, stderr } = await serveOn('0.0.0.0:0');
  assert.is(code, 78);
  assert.match(stderr, /ollama\.listen 0\.0\.0\.0 is reachable from other machines/);
  assert.match(stderr, /svc config set ollama\.listen 127\.0\.0\.1:11434/);
});

test.run();
