/** Whether one model works here, found out in a short-lived child: it loads, and produces one token. */
import { SvcError } from '../protocol/errors.ts';
import { encodeFrame, FrameDecoder, FROM_ENGINE, type EngineInfo, type FromEngine } from './frames.ts';
import { describeExit, spawnEngine } from './spawn.ts';

export interface TriedModel {
  readonly info: EngineInfo;
  /** From nothing to the token. */
  readonly tookMs: number;
}

/** Enough for one token; a context as long as the model's own could ask for all memory. */
const CONTEXT_LENGTH = 512;

/** Throws what the engine says of the model, or ENGINE_CRASHED, or TIMEOUT. */
export async function tryModel(model: string, path: string, timeoutMs: number): Promise<TriedModel> {
  const startedAt = performance.now();
  const child = await spawnEngine();
  const frames = new FrameDecoder<FromEngine>(FROM_ENGINE);
  let outcome: TriedModel | SvcError | undefined;
  const settle = (result: TriedModel | SvcError): void => {
    outcome ??= result;
    child.kill();
  };
  child.stdout.resume();
  child.stderr.resume();
  child.pipe.on('error', () => undefined); // the exit says why
  child.pipe.on('data', (chunk: Buffer) => {
    try {
      for (const message of frames.decode(chunk)) {
        if (message.type === 'loaded') settle({ info: message.info, tookMs: performance.now() - startedAt });
        if (message.type === 'failed') settle(SvcError.fromRecord(message.error));
      }
    } catch {
      settle(new SvcError('ENGINE_CRASHED', 'the engine process wrote garbage'));
    }
  });
  const options = { contextLength: CONTEXT_LENGTH, maxSequences: 1 };
  child.pipe.write(encodeFrame({ type: 'load', model, path, options, parentPid: process.pid }));

  const timer = setTimeout(() => {
    settle(new SvcError('TIMEOUT', `no token within ${String(timeoutMs / 1000)} s`));
  }, timeoutMs);
  const exit = await child.ended;
  clearTimeout(timer);
  outcome ??= new SvcError('ENGINE_CRASHED', `the engine process ${describeExit(exit)}`);
  if (outcome instanceof SvcError) throw outcome;
  return outcome;
}
