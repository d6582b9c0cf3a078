import { conformance } from './conformance.ts';
import { ask } from './local-support.ts';
import { makeRealLocal, TINY } from './real-local.ts';

conformance('local backend', () => {
  const { backend, dispose } = makeRealLocal({}, TINY, 'llama');
  return Promise.resolve({
    backend,
    short: { ...ask('Hello'), max_tokens: 30 },
    endless: ask('Hello'),
    unknown: ask('Hello', 'nothing-of-this-name'),
    work: () => backend.loadedModels().reduce((sum, { kv_cells_used }) => sum + (kv_cells_used ?? 0), 0),
    owned: () => backend.pids().length,
    dispose,
  });
});
