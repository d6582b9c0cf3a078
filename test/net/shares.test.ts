import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Shares } from '../../src/net/shares.ts';

test('one share may hold three quarters, and what it takes last may go beyond that', () => {
  const shares = new Shares(100);
  assert.ok(shares.take('a', 74));
  assert.ok(shares.take('a', 1000));
  assert.not.ok(shares.take('a', 1));
  assert.not.ok(shares.take('b', 1), 'all together hold too many');
  shares.giveBack('a', 1000);
  assert.ok(shares.take('b', 25));
  shares.giveBack('b', 25);
  assert.ok(shares.take('a', 1));
  shares.giveBack('a', 74);
  shares.giveBack('a', 1);
  assert.ok(shares.take('b', 75));
  assert.ok(shares.take('a', 75));
});

test.run();
