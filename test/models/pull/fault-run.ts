/** Runs a pull with one fault and returns the outcome, for the test and for docs/pull-faults.md. */
import { SvcError } from '../../../src/protocol/errors.ts';
import { CONTENT, FILE, REPO, type Fault } from './faults.ts';
import type { Pulled } from '../../../src/models/pull/puller.ts';
import { NEVER, type PullContext } from './pull-support.ts';

export interface FaultResult {
  readonly error: SvcError | null;
  /** Messages during the pull. */
  readonly said: readonly string[];
  readonly fetchedTwice: number;
}

export async function runFault(
  { first, begin }: Fault,
  { hub, pull }: Pick<PullContext, 'hub' | 'pull'>,
): Promise<FaultResult> {
  hub.reset();
  hub.repositories.clear();
  hub.add(REPO, FILE, CONTENT);
  let before = 0;
  let now = 0;
  const said: string[] = [];
  const onEvent = (event: Pulled): void => {
    if (event.type === 'progress') hub.fetched = now = event.fetched_bytes;
    if (event.type === 'waiting') said.push(event.reason);
  };
  if (first !== undefined) {
    first(hub);
    await pull(`hf:${REPO}`, NEVER, onEvent).catch(() => undefined);
    before = now;
    now = 0;
    said.length = 0;
    hub.reset();
  }
  begin(hub, CONTENT);
  const size = hub.repositories.get(REPO)?.get(FILE)?.content.length ?? 0;
  const error = await pull(`hf:${REPO}`, NEVER, onEvent).then(
    () => null,
    (thrown: unknown) => SvcError.from(thrown),
  );
  return { error, said, fetchedTwice: Math.max(0, before + now - size) };
}
