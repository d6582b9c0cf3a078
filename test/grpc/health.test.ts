/** grpc.health.v1 over the gRPC listener: names of services that do not exist. */
import { status, type ServiceError } from '@grpc/grpc-js';
import { HealthImplementation, service as healthService } from 'grpc-health-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { failureOf, readFailure, type Failure, type TestClient } from './scripted.ts';
import { next, starter, watchStatus } from './listener-support.ts';

const start = starter(test);

interface Refusal extends Failure {
  readonly id: string;
}

async function checkFailure({ client }: TestClient, service: string): Promise<Refusal> {
  const { path, requestSerialize, responseDeserialize } = healthService['Check']!;
  return await new Promise((resolve, reject) => {
    client.makeUnaryRequest(path, requestSerialize, responseDeserialize, { service }, (error: ServiceError | null) => {
      if (error === null) reject(new Error('it did not fail'));
      else resolve({ ...readFailure(error), id: String(error.metadata.get('x-request-id')[0]) });
    });
  });
}

test('a check of an unknown service fails like every call, and does not repeat the name', async () => {
  const grpc = await start();
  const failure = await checkFailure(grpc.connect(), 'nobody');
  assert.equal([failure.status, failure.reason], [status.NOT_FOUND, 'NOT_FOUND']);
  assert.is(failure.metadata['param'], 'service');
  assert.match(failure.id, /^[0-9a-f]{32}$/);
  assert.is(failure.metadata['request_id'], failure.id);
  assert.not.match(failure.message, 'nobody');
  const lines = grpc.logged.filter(({ id }) => id === failure.id).map(({ msg }) => msg);
  assert.equal(lines, ['call failed', 'call']);
});

test('a watch of an unknown service stays open until the daemon stops, and its name is not kept', async () => {
  const kept: string[] = [];
  const library = HealthImplementation.prototype as unknown as {
    addWatcher(service: string, watcher: unknown): void;
  };
  const { addWatcher } = library;
  library.addWatcher = function (service, watcher) {
    kept.push(service);
    addWatcher.call(this, service, watcher);
  };
  try {
    const grpc = await start();
    const client = grpc.connect();
    const unknown = watchStatus(client, 'nobody');
    assert.is((await next(unknown)).status, 'SERVICE_UNKNOWN');
    const known = watchStatus(client, 'svc.v1.Runtime');
    assert.is((await next(known)).status, 'SERVING');
    assert.equal(kept, ['svc.v1.Runtime']);
    assert.is(unknown.readableEnded, false);
    const end = failureOf(unknown);
    await grpc.listener.close();
    const { status: code, reason } = await end;
    assert.equal([code, reason], [status.UNAVAILABLE, 'NOT_READY']);
  } finally {
    library.addWatcher = addWatcher;
  }
});

test.run();
