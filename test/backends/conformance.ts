/** Conformance tests that every Backend must pass (src/backends/backend.ts). */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Backend, GenerateContext } from '../../src/backends/backend.ts';
import { CONTROL_CALLER } from '../../src/protocol/caller.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import type { GenerateEvent, GenerateRequest } from '../../src/protocol/generate.ts';
import { firstText } from '../support/first-text.ts';
import { waitFor } from '../support/wait.ts';

export interface Subject {
  readonly backend: Backend;
  /** A request that is answered with some text within seconds. */
  readonly short: GenerateRequest;
  /** A request whose answer outlasts any test and fills the buffers of a consumer that does not pull. */
  readonly endless: GenerateRequest;
  /** A request for a model that does not exist. */
  readonly unknown: GenerateRequest;
  /** A counter that changes while output is produced, even if it is not read. At most a second old. */
  readonly work: () => number;
  /** Number of processes and sockets that the backend owns. */
  readonly owned: () => number;
  /** Frees what the test created besides the backend. Called after the backend is closed. */
  readonly dispose: () => Promise<void>;
}

export function context(signal: AbortSignal = new AbortController().signal): GenerateContext {
  return { traceId: 'conformance', caller: CONTROL_CALLER, signal, arrivedAt: performance.now() };
}

export async function collect(events: AsyncIterable<GenerateEvent>): Promise<GenerateEvent[]> {
  const all: GenerateEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

/** Returns the SvcError that `promise` rejects with. */
export async function failure(promise: Promise<unknown>): Promise<SvcError> {
  try {
    await promise;
  } catch (error) {
    assert.instance(error, SvcError);
    return error as SvcError;
  }
  assert.unreachable('it did not fail');
  throw new Error('unreachable');
}

/** Registers the suite. Each test gets its own subject. */
export function conformance(name: string, make: () => Promise<Subject>): void {
  const test = suite(name);

  const it: It = (what, body) => {
    test(what, async () => {
      const subject = await make();
      try {
        await body(subject);
      } finally {
        await subject.backend.destroy(new SvcError('CANCELLED', 'the test is over'));
        await subject.dispose();
      }
    });
  };

  answers(it);
  stops(it);
  closes(it);
  test.run();
}

type It = (what: string, body: (subject: Subject) => Promise<void>) => void;

/** Resolves when no more output is produced. */
async function quiet({ work }: Subject): Promise<void> {
  const stopped = async (): Promise<boolean> => {
    const before = work();
    await sleep(1500);
    return work() === before;
  };
  await waitFor('the work to stop', stopped);
}

function answers(it: It): void {
  it('yields start, text and one finish', async ({ backend, short }) => {
    const began = context();
    const events = await collect(backend.generate(short, began));
    const types = events.map(({ type }) => type);
    assert.is(types[0], 'start');
    assert.is(types.at(-1), 'finish');
    assert.ok(types.slice(1, -1).length > 0);
    assert.ok(types.slice(1, -1).every((type) => type === 'text' || type === 'reasoning'));

    const finish = events.at(-1);
    assert.ok(finish?.type === 'finish');
    const { usage, timings } = finish;
    assert.ok(usage !== null && usage.input_tokens > 0 && usage.output_tokens > 0);
    assert.ok(timings.queue_ms >= 0);
    assert.ok(timings.ttft_ms !== null && timings.ttft_ms >= timings.queue_ms);
    assert.ok(timings.total_ms >= timings.ttft_ms);
    assert.ok(timings.total_ms <= performance.now() - began.arrivedAt);
  });

  it('answers many at once', async ({ backend, short }) => {
    const answers = await Promise.all(Array.from({ length: 8 }, () => collect(backend.generate(short, context()))));
    for (const events of answers) assert.is(events.at(-1)?.type, 'finish');
  });

  it('refuses a model that does not exist', async ({ backend, unknown }) => {
    assert.is((await failure(collect(backend.generate(unknown, context())))).code, 'MODEL_NOT_FOUND');
  });

  it('lists models and identifies itself', async ({ backend }) => {
    const models = await backend.modelNames(new AbortController().signal);
    assert.ok(models.length > 0);
    assert.is(backend.record().name, backend.name);
  });
}

/** Aborts, and consumers that return or do not pull. */
function stops(it: It): void {
  it('does nothing if the signal is already aborted', async ({ backend, endless }) => {
    const reason = new SvcError('CANCELLED', 'too late');
    assert.is(await failure(collect(backend.generate(endless, context(AbortSignal.abort(reason))))), reason);
  });

  it('throws the reason of an abort and stops the work', async (subject) => {
    const { backend, endless } = subject;
    const controller = new AbortController();
    const reason = new SvcError('CANCELLED', 'the caller has left');
    const seen: string[] = [];
    const error = await failure(
      (async () => {
        for await (const { type } of backend.generate(endless, context(controller.signal))) {
          seen.push(type);
          if (seen.length === 4) controller.abort(reason);
        }
      })(),
    );
    assert.is(error, reason);
    assert.not(seen.includes('finish'));
    await quiet(subject);
  });

  it('an abort wakes a waiting consumer', async ({ backend, endless }) => {
    const controller = new AbortController();
    const events = backend.generate(endless, context(controller.signal))[Symbol.asyncIterator]();
    const reason = new SvcError('CANCELLED', 'the caller has left');
    const pending = failure(events.next());
    controller.abort(reason);
    assert.is(await pending, reason);
  });

  it('stops the work when the consumer returns', async (subject) => {
    for await (const { type } of subject.backend.generate(subject.endless, context())) if (type === 'text') break;
    await quiet(subject);
  });

  it('stops producing while the consumer does not pull, and resumes when it does', async (subject) => {
    const events = subject.backend.generate(subject.endless, context())[Symbol.asyncIterator]();
    await firstText(events);
    await quiet(subject);
    const before = subject.work();
    await waitFor('the work to go on', async () => {
      // Socket buffers on the way hold some megabytes that were produced before.
      for (let pulls = 0; pulls < 100; pulls++) await events.next();
      return subject.work() !== before;
    });
    await events.return?.();
  });
}

function closes(it: It): void {
  it('close lets running requests finish and rejects new ones', async ({ backend, short, owned }) => {
    const events = backend.generate(short, context())[Symbol.asyncIterator]();
    await events.next();
    const closed = backend.close();
    assert.is((await failure(collect(backend.generate(short, context())))).code, 'NOT_READY');
    let last: GenerateEvent | undefined;
    for (;;) {
      const next = await events.next();
      if (next.done === true) break;
      last = next.value;
    }
    assert.is(last?.type, 'finish');
    await closed;
    assert.is(owned(), 0);
    await backend.close();
  });

  it('destroy ends running requests with the given error', async ({ backend, endless, owned }) => {
    const reason = new SvcError('NOT_READY', 'svc is stopping');
    const answer = failure(collect(backend.generate(endless, context())));
    await waitFor('the work to begin', () => owned() > 0);
    await backend.destroy(reason);
    assert.is(await answer, reason);
    assert.is(owned(), 0);
    await backend.destroy(reason);
    await backend.close();
  });
}
