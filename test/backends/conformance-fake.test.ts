import { conformance } from './conformance.ts';
import { makeFakeLocal } from './fake-local.ts';
import { ask } from './local-support.ts';

conformance('local backend, engine without a model', async () => {
  const { backend, dispose } = await makeFakeLocal({ one: {} }, {}, 'one');
  return {
    backend,
    short: ask('say 20'),
    endless: ask('endless'),
    unknown: ask('say 1', 'nothing-of-this-name'),
    work: () => backend.loadedModels().reduce((sum, model) => sum + (model.kv_cells_used ?? 0), 0),
    owned: () => backend.pids().length,
    dispose,
  };
});
