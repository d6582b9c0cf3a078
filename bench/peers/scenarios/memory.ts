/** Resident memory of the process that holds the model; all servers have the same number of KV-cache cells. */
import type { Bar, Scenario } from '../scenario.ts';

const memory = (name: string, bars: readonly Bar[]): Scenario => ({
  name,
  servers: ['svc', 'llama-server'],
  figures: [{ name: 'resident', unit: 'MB', isMoreBetter: false, bars }],
  seconds: 0,
  isOnce: true,
  measure: async (server) => [(await server.residentBytes()) / 1e6],
});

/** Measured before the servers cache any of the scenarios' prompts. */
export const memoryAtFirst = memory('memory, after the first answers', [{ server: 'llama-server', ratio: 1 }]);
export const memoryAtLast = memory('memory, after all of the above', []);
