/**
 * A generation that does not end before the test wants it to, however fast the machine is: its engine process is
 * stopped in the middle. What the daemon promises about it (a deadline, a cancel, an answer to others) then meets a
 * generation that is surely under way.
 */
import type { Client } from '../../src/client/client.ts';
import { waitFor } from './wait.ts';

export interface Held {
  /** Lets the engine go on. Harmless when the process has ended, or goes on already. */
  release(): void;
}

/** Stops the process until `release`; SIGKILL ends it all the same. */
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

/** Stops all engines of the daemon, whichever of them generates. */
export async function holdEngines(client: Client): Promise<Held> {
  const { models } = await client.health();
  const held = models.flatMap(({ pid }) => (pid === null ? [] : hold(pid)));
  return {
    release: () => {
      for (const each of held) each.release();
    },
  };
}

/** Process id of the engine of the daemon's first model, once that is loaded. */
export async function enginePid(client: Client): Promise<number> {
  return await waitFor('an engine', async () => {
    const [model] = (await client.health()).models;
    return model?.state === 'loaded' ? model.pid : null;
  });
}
