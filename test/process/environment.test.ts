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
  const kept = engineEnvironment({
    ...given,
    OPENAI_API_KEY: 'secret',
    SVC_API_KEY: 'secret',
    NODE_AUTH_TOKEN: 'secret',
    NVIDIA_API_KEY: 'secret',
    DATABASE_URL: 'secret',
    HTTPS_PROXY: 'secret',
    GGML_BACKEND_PATH: undefined,
  });
  for (const [name, value] of Object.entries(given)) assert.is(kept[name], value, name);
  assert.not.ok(Object.values(kept).includes('secret'));
  assert.is('GGML_BACKEND_PATH' in kept, false);
});

test.run();
