/** Runs a real engine process without a daemon: sends it frames, and collects those that it sends. */
import { encodeFrame, FrameDecoder, FROM_ENGINE } from '../../src/engine/frames.ts';
import type { FromEngine, ToEngine } from '../../src/engine/messages.ts';
import { BUILT_ENGINE } from './built.ts';
import { spawnEngine, type SpawnedEngine } from '../../src/engine/spawn.ts';

export interface PipedEngine extends SpawnedEngine {
  /** All messages so far. */
  readonly received: FromEngine[];
  send(message: ToEngine): void;
}

export async function startEngine(): Promise<PipedEngine> {
  const child = await spawnEngine({ entry: BUILT_ENGINE });
  const frames = new FrameDecoder<FromEngine>(FROM_ENGINE);
  const received: FromEngine[] = [];
  child.stdout.resume();
  child.stderr.resume();
  child.pipe.on('error', () => undefined);
  child.pipe.on('data', (chunk: Buffer) => received.push(...frames.decode(chunk)));
  return {
    ...child,
    received,
    send: (message) => void child.pipe.write(encodeFrame(message)),
  };
}
