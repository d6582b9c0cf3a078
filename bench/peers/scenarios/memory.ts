/** Resident memory of the process that has the model, with as many cells everywhere. */
import type { Bar, Scenario } from '../scenario.ts';

const memory = (name: string, bars: readonly Bar[]): Scenario => ({
  name,
  servers: ['svc', 'llama-server'],
  figures: [{ name: 'resident', unit: 'MB', isMoreBetter: false, bars }],
  seconds: 0,
  isOnce: true,
  measure: async (server) => [(await server.residentBytes()) / 1e6],
});

/** Of what the servers keep of prompts later, nothing is there yet. */
export const memoryAtFirst = memory('memory, after the first answers', [{ server: 'llama-server', ratio: 1 }]);
export const memoryAtLast = memory('memory, after all of the above', []);
