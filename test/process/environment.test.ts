import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { engineEnvironment } from '../../src/process/environment.ts';

test('an engine gets the variables that drivers and libraries read, and no secret', () => {
  const given = {
    PATH: '/bin',
    LC_ALL: 'C',
    LD_LIBRARY_PATH: '/lib',
    GGML_VK_VISIBLE_DEVICES: '0',
    CUDA_VISIBLE_DEVICES: '0',
    UBSAN_OPTIONS: 'x',
    __NV_PRIME_RENDER_OFFLOAD: '1',
    SVC_ADDON: '/addon',
  };
  Object.assign(process.env, given, {
    GLIBC_TUNABLES: 'x',
    GGML_BACKEND_PATH: '/module',
    OPENAI_API_KEY: 'secret',
    SVC_API_KEY: 'secret',
    NODE_AUTH_TOKEN: 'secret',
    NVIDIA_API_KEY: 'secret',
    DATABASE_URL: 'secret',
    HTTPS_PROXY: 'secret',
  });
  const kept = engineEnvironment({ GGML_BACKEND_PATH: undefined, MALLOC_SETTING: '1' });
  for (const [name, value] of Object.entries(given)) assert.is(kept[name], value, name);
  assert.not.ok(Object.values(kept).includes('secret'));
  for (const name of ['GLIBC_TUNABLES', 'GGML_BACKEND_PATH']) assert.is(name in kept, false, name);
  assert.is(kept['MALLOC_SETTING'], '1');
});

test.run();
