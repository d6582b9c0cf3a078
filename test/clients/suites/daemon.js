/**
 * The daemon of a suite, and what all suites ask it.
 *
 * The suites are JavaScript: `npm run check` sees no types of these clients, which only `npm test` installs.
 */
import * as assert from 'uvu/assert';
import { ControlClient } from '../../../src/client/control-client.ts';
import { holdEngines } from '../../support/hold.ts';
import { waitFor } from '../../support/wait.ts';

export const { SVC_CLIENT_URL: URL, SVC_CLIENT_KEY: KEY } = process.env;
/** PNG in base64. */
export const PICTURE = process.env.SVC_CLIENT_PICTURE;
export const PICTURE_URL = `data:image/png;base64,${PICTURE}`;
export const QUESTION = 'Will it rain?';
/** Longer than the context of any model here. */
export const LONG = 'rain '.repeat(200_000);

/** Every value is bounded, so that random weights come to an end. */
export const SCHEMA = {
  type: 'object',
  properties: { city: { type: 'string', enum: ['Paris', 'Oslo'] }, days: { type: 'integer', minimum: 1, maximum: 99 } },
  required: ['city', 'days'],
  additionalProperties: false,
};

/** `value`: an object, or its JSON. */
export function assertFits(value) {
  const { city, days, ...others } = typeof value === 'string' ? JSON.parse(value) : value;
  assert.ok(['Paris', 'Oslo'].includes(city), JSON.stringify(value));
  assert.ok(Number.isInteger(days) && days >= 1 && days <= 99, JSON.stringify(value));
  assert.equal(others, {});
}

const daemon = new ControlClient(process.env.SVC_CLIENT_SOCKET);

/**
 * Starts a generation with `begin(signal)`, which resolves once a first piece is there, aborts it while the engine is
 * stopped, so that it cannot end by itself, and waits until the daemon has stopped it too. `isHeld` is false for a
 * client that only looks at its signal when a piece arrives.
 */
export async function assertAbortStops(begin, isHeld = true) {
  const gone = new AbortController();
  const rest = await begin(gone.signal);
  const { queue } = await daemon.health();
  assert.is(queue.active, 1, 'it runs');
  const held = isHeld ? await holdEngines(daemon) : null;
  try {
    gone.abort();
    await rest().catch(() => undefined);
    await waitFor('the router to forget it', async () => {
      const { active, waiting } = (await daemon.health()).queue;
      return active + waiting === 0;
    });
  } finally {
    held?.release();
  }
  await waitFor('the engine to free its cells', async () => {
    const { models } = await daemon.health();
    return models.every(({ active, waiting }) => active + waiting === 0);
  });
}

/** Takes the first piece of a stream, and returns a function that reads the rest. */
export async function begun(stream) {
  const pieces = stream[Symbol.asyncIterator]();
  await pieces.next();
  return () => drain(pieces);
}

/** Reads an iterator, or all that is left of it, to its end. */
export async function drain(pieces) {
  while (!(await pieces.next()).done);
}

/** Returns what the work is refused with. */
export async function failureOf(work) {
  try {
    await work;
  } catch (error) {
    return error;
  }
  throw new Error('it did not fail');
}
