/** A suite whose tests each have a fake provider of their own, and cloud backends for it. */
import { suite, type Test } from 'uvu';
import type { Provider } from '../../../src/backends/cloud/provider.ts';
import { SvcError } from '../../../src/protocol/errors.ts';
import type { FinishEvent, GenerateEvent, GenerateRequest } from '../../../src/protocol/generate.ts';
import { collect, context } from '../conformance.ts';
import { ask, cloud, type Cloud } from './cloud-support.ts';
import { startUpstream, type Upstream } from './upstream.ts';

export interface CloudContext {
  upstream: Upstream;
  /** Opened backends, which are destroyed after the test. */
  clouds: Cloud[];
  open: (changes?: Partial<Provider>) => Cloud;
}

export function cloudSuite(name: string): Test<CloudContext> {
  const test = suite<CloudContext>(name);
  test.before.each(async (here) => {
    here.upstream = await startUpstream();
    here.clouds = [];
    here.open = (changes) => {
      const opened = cloud(`${here.upstream.url}/v1`, changes);
      here.clouds.push(opened);
      return opened;
    };
  });
  test.after.each(async ({ upstream, clouds }) => {
    for (const { backend } of clouds) await backend.destroy(new SvcError('CANCELLED', 'the test is over'));
    await upstream.close();
  });
  return test;
}

export async function answer({ backend }: Cloud, request: GenerateRequest = ask()): Promise<GenerateEvent[]> {
  return await collect(backend.generate(request, context()));
}

export function finishOf(events: readonly GenerateEvent[]): FinishEvent {
  return events.at(-1) as FinishEvent;
}

/** Error body as most servers send it. */
export function said(message: string, more: object = {}): object {
  return { error: { message, ...more } };
}
