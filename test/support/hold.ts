/**
 * Pauses a generation by stopping its engine process (SIGSTOP), so that it cannot finish before the test is ready,
 * however fast the machine is. Tests of deadlines, cancellation and concurrent requests then surely meet a generation
 * in flight.
 */
import type { ControlClient } from '../../src/client/control-client.ts';
import { waitFor } from './wait.ts';

/**
 * Configuration for answers that are to be stopped in the middle. The built-in model fills the context that it was
 * trained for in a fifth of a second, which may pass before a test has seen the first words; this one takes seconds.
 */
export const LONG_CONTEXT = { engine: { context_length: 65_536 } };
/**
 * The same for an answer whose end the test waits for: 4 s of work on a quiet machine. Reading a long cache for each
 * token is most of it, so twice as many tokens take four times as long.
 */
export const LONG_ANSWER_TOKENS = 5_000;
/** Drain deadline, in milliseconds, that such an answer does not reach however busy the machine is. */
export const LONG_DRAIN_MS = 120_000;

export interface Held {
  /** Resumes the engine. No-op if the process has exited or already runs. */
  release(): void;
}

/** Stops the process until `release`. SIGKILL still ends it. */
export function hold(pid: number): Held {
  process.kill(pid, 'SIGSTOP');
  return {
    release: () => {
      try {
        process.kill(pid, 'SIGCONT');
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
      }
    },
  };
}

/** Stops all engines of the daemon. */
export async function holdEngines(client: ControlClient): Promise<Held> {
  const { models } = await client.health();
  const held = models.flatMap(({ pid }) => (pid === null ? [] : hold(pid)));
  return {
    release: () => {
      for (const each of held) each.release();
    },
  };
}

/** Waits until the daemon's first model is loaded and returns the process id of its engine. */
export async function enginePid(client: ControlClient): Promise<number> {
  return await waitFor('an engine', async () => {
    const [model] = (await client.health()).models;
    return model?.state === 'loaded' ? model.pid : null;
  });
}
