/**
 * The entry of an engine process: one model, one probe of the machine, or one file that is quantised, at the
 * far end of the pipe on fd 3. It neither outlives the daemon nor leaves before it:
 *
 * - The pipe ends when the daemon does, however that happened, and this process with it; on Linux
 *   the kernel sees to it even while JavaScript is stopped (dieWithParent).
 * - It ends by SIGKILL to itself: an orderly exit would wait for the runner thread inside a step, or
 *   free the model under it. What has to be orderly comes as `close`.
 * - Signals to the whole terminal or service (Ctrl-C, systemd) are the daemon's, which drains first.
 *
 * Before it reads anything foreign it gives up what it does not need (sandbox.ts).
 *
 * Prompts come over the pipe only: they stand in no argument, no variable and no log line.
 */
import { Socket } from 'node:net';
import { SvcError } from '../protocol/errors.ts';
import { encodeFrame, FrameDecoder, TO_ENGINE, type FromEngine, type ToEngine } from './frames.ts';
import { inspectMachine } from './inspect.ts';
import { ModelHost } from './model-host.ts';
import { goFirst } from './priority.ts';
import { quantizeHere } from './quantize.ts';
import { trySandbox } from './sandbox-trial.ts';
import { keepToOwnProcess } from './sandbox.ts';

const pipe = new Socket({ fd: 3 });
const frames = new FrameDecoder<ToEngine>(TO_ENGINE);
let host: ModelHost | undefined;

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
      host ??= new ModelHost(pipe);
      host.load(message).catch((error: unknown) => {
        if (!(error instanceof SvcError)) console.error(error);
        send({ type: 'failed', error: SvcError.from(error).toRecord() });
      });
      break;
    case 'estimate':
      process.title = `svc: engine ${message.model}`;
      // In the sandbox it may not any more.
      goFirst();
      host ??= new ModelHost(pipe);
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
      void host?.close().then(() => {
        process.exit(0);
      });
      break;
    default:
      host?.receive(message);
  }
}

try {
  keepToOwnProcess();
} catch {
  // Without process.node there is no sandbox: the first message is answered with that.
}
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
