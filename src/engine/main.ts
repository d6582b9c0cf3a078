/**
 * Entry point of an engine process: serves one model, probes the machine or quantizes one file, over the pipe on fd 3.
 * Its lifetime is tied to the daemon's:
 *
 * - The pipe ends when the daemon does, for whatever reason, and then this process ends. On Linux the kernel also
 *   kills it, even while JavaScript is blocked (dieWithParent).
 * - It ends itself with SIGKILL: a normal exit would wait for the runner thread inside a step, or free the model under
 *   it. For a graceful end the daemon sends `close`.
 * - It ignores signals sent to the whole terminal or service (Ctrl-C, systemd): the daemon handles them and drains.
 *
 * Before it reads untrusted data it enters the sandbox (sandbox.ts).
 *
 * Prompts come only over the pipe, never in arguments, environment variables or log lines.
 */
import { Socket } from 'node:net';
import { SvcError } from '../protocol/errors.ts';
import { encodeFrame, FrameDecoder, TO_ENGINE } from './frames.ts';
import type { FromEngine, ToEngine } from './messages.ts';
import { inspectMachine } from './inspect.ts';
import { ModelHost } from './model-host.ts';
import { goFirst } from './priority.ts';
import { quantizeHere } from './quantize.ts';
import { trySandbox } from './sandbox-trial.ts';
import { keepToOwnProcess } from './sandbox.ts';

const pipe = new Socket({ fd: 3 });
const frames = new FrameDecoder<ToEngine>(TO_ENGINE);

function die(): never {
  process.kill(process.pid, 'SIGKILL');
  throw new Error('unreachable');
}

function send(message: FromEngine): void {
  pipe.write(encodeFrame(message));
}

function receive(message: ToEngine): void {
  switch (message.type) {
    case 'load':
      process.title = `svc: engine ${message.model}`;
      goFirst();
      host.load(message).catch((error: unknown) => {
        if (!(error instanceof SvcError)) console.error(error);
        send({ type: 'failed', error: SvcError.from(error).toRecord() });
      });
      break;
    case 'estimate':
      process.title = `svc: engine ${message.model}`;
      // Not possible any more in the sandbox.
      goFirst();
      void host.estimate(message);
      break;
    case 'probe':
      process.title = 'svc: engine probe';
      void inspectMachine(message, send);
      break;
    case 'quantize':
      process.title = 'svc: engine quantize';
      void quantizeHere(message, send);
      break;
    case 'try_sandbox':
      process.title = 'svc: engine sandbox';
      void trySandbox(message, send);
      break;
    case 'close':
      void host.close().then(() => {
        process.exit(0);
      });
      break;
    default:
      host.receive(message);
  }
}

try {
  keepToOwnProcess();
} catch {
  // Without process.node there is no sandbox: the first message will fail with that error.
}
// From now on the daemon hears heartbeats, also while this process waits for its first message.
const host = new ModelHost(pipe);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);
pipe.on('data', (chunk: Buffer) => {
  try {
    for (const message of frames.decode(chunk)) receive(message);
  } catch (error) {
    console.error(error);
    die();
  }
});
pipe.on('error', die);
pipe.on('end', die);
pipe.on('close', die);
