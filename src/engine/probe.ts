/**
 * What the addon and this machine can do, found out in a short-lived child: loading a broken addon
 * or a GPU driver may crash a process, and that is an answer here, not an accident.
 */
import { SvcError } from '../protocol/errors.ts';
import { encodeFrame, FrameDecoder, FROM_ENGINE, type FromEngine, type ProbeFacts } from './frames.ts';
import { describeExit, spawnEngine } from './spawn.ts';

export interface ProbeOptions {
  /** Run a kernel on each device and report its GFLOP/s (up to a second a device). */
  readonly measure: boolean;
  /** Default 60,000. */
  readonly timeoutMs?: number;
  /** The child's entry file; another one in tests. */
  readonly entry?: string;
}

/** `error` is set when anything failed; the rest is what was found out before that. */
export type EngineProbe = ProbeFacts;

const NOTHING: EngineProbe = { addon: null, devices: [], cpuFeatures: null, error: null };

/** Never rejects. */
export async function probeEngine(options: ProbeOptions): Promise<EngineProbe> {
  try {
    return await probe(options);
  } catch (error) {
    return { ...NOTHING, error: SvcError.from(error).toRecord() };
  }
}

async function probe({ measure, timeoutMs = 60_000, entry }: ProbeOptions): Promise<EngineProbe> {
  const child = await spawnEngine(entry);
  const frames = new FrameDecoder<FromEngine>(FROM_ENGINE);
  let facts = NOTHING;
  let next = 'starting' as string | null;
  let verdict: string | undefined;
  const stop = (why: string): void => {
    verdict = why;
    child.kill();
  };

  child.stdout.resume();
  child.stderr.resume();
  child.pipe.on('error', () => undefined); // the exit says why
  child.pipe.on('data', (chunk: Buffer) => {
    try {
      for (const message of frames.decode(chunk)) if (message.type === 'probed') ({ facts, next } = message);
    } catch {
      stop('wrote garbage');
    }
    if (next === null) child.kill(); // all is said; a driver's exit handlers may hang
  });
  child.pipe.write(encodeFrame({ type: 'probe', measure, parentPid: process.pid }));

  const timer = setTimeout(() => {
    stop(`gave no answer for ${String(timeoutMs / 1000)} s`);
  }, timeoutMs);
  const exit = await child.ended;
  clearTimeout(timer);

  if (next === null) return facts;
  const error = new SvcError('ENGINE_CRASHED', `the engine process ${verdict ?? describeExit(exit)} while ${next}`, {
    hint: 'reinstall svc-runtime; if it happens at a GPU, update its driver',
  });
  return { ...facts, error: error.toRecord() };
}
