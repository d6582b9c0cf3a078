/** Health over gRPC, as any other program sees it: one record, a watch, or the standard health check. */
import { Client, credentials, Metadata, status, type ServiceError } from '@grpc/grpc-js';
import { service as standardHealth } from 'grpc-health-check';
import { variable } from '../process/environment.ts';
import { Definitions } from '../grpc/definitions.ts';
import { fieldsOf } from '../grpc/records.ts';
import { decodeDetails, DETAILS_KEY } from '../grpc/status.ts';
import { SvcError } from '../protocol/errors.ts';
import type { HealthRecord } from '../protocol/records.ts';
import { reachable } from '../config/reachable.ts';
import { keyNeeded, notRunning } from './daemon-errors.ts';

/** Long, because the daemon's first connection loads its gRPC library, and the machine may be busy. */
const ANSWER_MS = 15_000;

const HEALTH = 'svc.v1.Health';
const definitions = new Definitions();
const runtime = definitions.service('svc.v1.Runtime');

/**
 * `address` as the daemon reports it: `127.0.0.1:7118`. Throws DAEMON_NOT_RUNNING if nothing listens there,
 * UNAUTHORIZED if a key is needed and missing.
 */
export async function probeGrpcHealth(address: string): Promise<HealthRecord> {
  return recordOf(await call(address, method('GetHealth'), {}));
}

/** Returns the grpc.health.v1 status of a service, for example `SERVING`. Throws like `probeGrpcHealth`. */
export async function checkGrpcService(address: string, service: string): Promise<string> {
  const answer = await call(address, standardHealth['Check'] as unknown as Method, { service });
  return (answer as { status: string }).status;
}

/** Yields the current record, then each newer one. Ends only by throwing, when the daemon ends. */
export async function* watchGrpcHealth(address: string): AsyncGenerator<HealthRecord, void, undefined> {
  const client = connect(address);
  const { path, requestSerialize, responseDeserialize } = method('WatchHealth');
  const call = client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, {}, withKey());
  try {
    for await (const update of call) yield recordOf((update as { health: object }).health);
    throw notRunning();
  } catch (error) {
    throw failure(error);
  } finally {
    call.cancel();
    client.close();
  }
}

async function call(
  address: string,
  { path, requestSerialize, responseDeserialize }: Method,
  request: object,
): Promise<object> {
  const client = connect(address);
  try {
    return await new Promise((resolve, reject) => {
      client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        request,
        withKey(),
        { deadline: Date.now() + ANSWER_MS },
        (error, message) => {
          if (message === undefined) reject(failure(error));
          else resolve(message);
        },
      );
    });
  } finally {
    client.close();
  }
}

function connect(address: string): Client {
  // A proxy in the environment is for other machines.
  return new Client(reachable(address), credentials.createInsecure(), { 'grpc.enable_http_proxy': 0 });
}

function withKey(): Metadata {
  const metadata = new Metadata();
  const key = variable('SVC_API_KEY');
  if (key !== undefined) metadata.set('authorization', `Bearer ${key}`);
  return metadata;
}

interface Method {
  readonly path: string;
  readonly requestSerialize: (message: object) => Buffer;
  readonly responseDeserialize: (bytes: Buffer) => object;
}

function method(name: string): Method {
  return runtime[name] as unknown as Method;
}

function recordOf(message: object): HealthRecord {
  return fieldsOf(definitions, HEALTH, message as Record<string, unknown>, true) as unknown as HealthRecord;
}

function failure(thrown: unknown): SvcError {
  if (thrown instanceof SvcError) return thrown;
  const { code, metadata } = thrown as ServiceError;
  const [details] = (metadata as ServiceError['metadata'] | undefined)?.get(DETAILS_KEY) ?? [];
  const told = Buffer.isBuffer(details) ? decodeDetails(definitions, details) : null;
  if (told?.code === 'UNAUTHORIZED') return keyNeeded(told.message);
  if (told !== null) return told;
  switch (code) {
    case status.UNAVAILABLE:
      return notRunning();
    case status.DEADLINE_EXCEEDED:
      return new SvcError('NOT_READY', 'the daemon does not answer', {
        hint: 'see `svc logs`; `svc stop --force` ends it',
      });
    default:
      return new SvcError('INTERNAL', `unexpected answer from the daemon (gRPC status ${String(code)})`, {
        hint: 'a daemon of another version, or another program, may be running there; see `svc status`',
        cause: thrown,
      });
  }
}
