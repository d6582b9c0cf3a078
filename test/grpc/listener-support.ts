/** Helpers for tests of the gRPC listener. */
import { once } from 'node:events';
import { connect as connectHttp2, type ClientHttp2Session } from 'node:http2';
import type { ClientReadableStream } from '@grpc/grpc-js';
import { service as healthService } from 'grpc-health-check';
import type { Test } from 'uvu';
import { startScriptedGrpc, type ScriptedGrpc, type TestClient } from './scripted.ts';

/** Returns a function that starts listeners over scripted services; they are stopped after each test. */
export function starter(test: Test): typeof startScriptedGrpc {
  const running: ScriptedGrpc[] = [];
  test.after.each(async () => {
    for (const grpc of running.splice(0)) await grpc.stop();
  });
  return async (options) => {
    const grpc = await startScriptedGrpc(options);
    running.push(grpc);
    return grpc;
  };
}

/** Returns the next message of the stream. */
export async function next(stream: ClientReadableStream<any>): Promise<any> {
  const waiting = stream.read();
  if (waiting !== null) return waiting;
  await once(stream, 'readable');
  return stream.read();
}

export function watchStatus({ client }: TestClient, service = ''): ClientReadableStream<any> {
  const { path, requestSerialize, responseDeserialize } = healthService['Watch']!;
  const watch = client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, { service });
  // The stream is ended by the test or by the shutdown of the server.
  watch.on('error', () => undefined);
  return watch;
}

/** Opens a raw HTTP/2 session, for requests that no client would send. */
export async function raw(grpc: ScriptedGrpc): Promise<ClientHttp2Session> {
  const session = connectHttp2(`http://${grpc.address}`);
  session.on('error', () => undefined);
  await once(session, 'remoteSettings');
  return session;
}

export const HEADERS = {
  ':method': 'POST',
  ':path': '/svc.v1.Runtime/GetHealth',
  'content-type': 'application/grpc',
  te: 'trailers',
};
/** The beginning of a ten-byte message. */
export const PARTIAL = Buffer.from([0, 0, 0, 0, 10, 1]);
