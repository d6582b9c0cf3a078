import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { HealthFeed } from '../../src/daemon/health-feed.ts';
import { FIGURES_MS } from '../../src/protocol/records.ts';

test('a change is sent at once; new figures only if nothing was sent for a while', () => {
  let now = 1000;
  let told = 0;
  const feed = new HealthFeed(() => now);
  const leave = feed.subscribe(() => (told += 1));
  feed.sampled();
  assert.is(told, 0);
  feed.changed();
  feed.changed();
  assert.equal([told, feed.sequence], [2, 2]);

  now += FIGURES_MS - 1;
  feed.sampled();
  assert.is(told, 2);
  now += 1;
  feed.sampled();
  feed.sampled();
  assert.equal([told, feed.sequence], [3, 3]);

  now += FIGURES_MS - 1;
  feed.changed();
  now += 1;
  feed.sampled();
  assert.is(told, 4, 'a change brings the figures with it');
  leave();
  feed.changed();
  assert.is(told, 4);
});

test.run();
