/** A short version of the campaigns that `npm run fuzz` runs against each listener of the daemon. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { fuzzDoor } from './doors/campaign.ts';
import { DOORS, type Door } from './doors/doors.ts';
import { Random } from './random.ts';
import { requestBytes } from './doors/protobuf-messages.ts';

const CASES = 400;
const SEED = 20_26;

for (const door of DOORS) {
  test(`${String(CASES)} random cases against ${door.name} cause no finding`, async () => {
    assert.equal(await fuzzDoor(door, SEED, 0, CASES), []);
  });
}

test('a case is reproducible from its seed and number', () => {
  const bytes = (index: number): Buffer => requestBytes(new Random(SEED, index));
  for (const index of [0, 1, 4711]) assert.equal(bytes(index), bytes(index));
  assert.not.equal(
    bytes(1).toString('hex') + bytes(2).toString('hex'),
    bytes(3).toString('hex') + bytes(4).toString('hex'),
  );
});

test('a daemon that dies is reported as a finding', async () => {
  const killer: Door = {
    name: 'killer',
    cases: 1,
    isShipped: false,
    open: ({ pid }) =>
      Promise.resolve({
        play: () => {
          process.kill(pid, 'SIGKILL');
          return Promise.resolve(null);
        },
        close: () => undefined,
      }),
  };
  const findings = await fuzzDoor(killer, SEED, 0, 1);
  assert.ok(
    findings.some(({ what }) => what.startsWith('process')),
    JSON.stringify(findings),
  );
});

test.run();
