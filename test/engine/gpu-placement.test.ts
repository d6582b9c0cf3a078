/** Settings of GPUs and experts, with real engines: two devices of the software driver, and a mixture of experts. */
import { fileURLToPath } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { EngineSettings } from '../../src/backends/local/local-backend.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import type { LoadedModel } from '../../src/protocol/records.ts';
import { collect, context } from '../backends/conformance.ts';
import { ask } from '../backends/local-support.ts';
import { makeRealLocal } from '../backends/real-local.ts';
import { SOFTWARE_GPU } from '../support/gpu-backends.ts';
import { unless } from '../support/skip.ts';

const MIXTURE = fileURLToPath(new URL('../../build/models/tiny-gpt-oss.gguf', import.meta.url));
/** A driver compiles its shaders first, which takes this one 20 s of CPU time for each device. */
const STALL_SECONDS = 400;
const PROMPT = 'The seller weighed the apples, wrote the price on a small brown bag and gave it to the child.';

const onSoftwareGpu = unless(SOFTWARE_GPU === null ? 'no software driver is installed' : undefined, test);

// The same device twice: with memory of its own each time.
const ENVIRONMENT = { ...SOFTWARE_GPU, GGML_VK_VISIBLE_DEVICES: '0,0' };
test.before(() => void Object.assign(process.env, SOFTWARE_GPU === null ? {} : ENVIRONMENT));
test.after(() => {
  for (const name of Object.keys(ENVIRONMENT)) Reflect.deleteProperty(process.env, name);
});

interface Answered {
  readonly text: string;
  readonly loaded: LoadedModel;
}

async function answerWith(settings: Partial<EngineSettings>): Promise<Answered> {
  const fixed = { context_length: 512, max_sequences: 1, stall_timeout_seconds: STALL_SECONDS };
  const { backend, dispose } = makeRealLocal({ ...fixed, ...settings }, { mixture: MIXTURE });
  try {
    const request = { ...ask(PROMPT, 'mixture'), max_tokens: 12, sampling: { temperature: 0 } };
    const events = await collect(backend.generate(request, context()));
    const text = events.map((event) => (event.type === 'text' ? event.text : '')).join('');
    const loaded = (await backend.models())[0]?.loaded ?? null;
    assert.ok(loaded);
    return { text, loaded };
  } finally {
    await dispose();
  }
}

const bytesOf = ({ placement }: LoadedModel): number[] =>
  placement?.devices.map(({ memory_bytes }) => memory_bytes) ?? [];

let expected = '';

onSoftwareGpu('without layers on a GPU everything is on the processor', async () => {
  const { text, loaded } = await answerWith({ gpu_layers: 0, main_gpu: 1, cpu_experts: 'all' });
  expected = text;
  assert.ok(text.length > 0);
  assert.is(loaded.device, 'CPU');
  const { devices = [], ...figures } = loaded.placement ?? {};
  assert.equal(figures, { layers: 3, gpu_layers: 0, cpu_experts: 0 });
  assert.equal(
    devices.map(({ name }) => name),
    ['CPU'],
  );
});

onSoftwareGpu('the main GPU has the layers and the processor the experts; the text is the same', async () => {
  const whole = await answerWith({ main_gpu: 'Vulkan1' });
  assert.is(whole.text, expected);
  assert.is(whole.loaded.device, 'Vulkan1');
  const { devices = [], ...figures } = whole.loaded.placement ?? {};
  assert.equal(figures, { layers: 3, gpu_layers: 3, cpu_experts: 0 });
  assert.equal(
    devices.map(({ name }) => name),
    ['CPU', 'Vulkan1'],
  );

  const apart = await answerWith({ main_gpu: 1, cpu_experts: 1 });
  assert.is(apart.text, expected);
  assert.is(apart.loaded.device, 'Vulkan1');
  assert.is(apart.loaded.placement?.cpu_experts, 1);
  // Three matrices of 64 by 192 for each of four experts, in two bytes.
  const [, onGpu = 0] = bytesOf(whole.loaded);
  const [, left = 0] = bytesOf(apart.loaded);
  assert.ok(onGpu - left >= 3 * 4 * 64 * 192 * 2, `${String(onGpu)} and ${String(left)} bytes`);
});

onSoftwareGpu('GPUs share the layers as tensor_split says; the text is the same', async () => {
  const { text, loaded } = await answerWith({ tensor_split: [2, 1] });
  assert.is(text, expected);
  assert.is(loaded.device, 'Vulkan0, Vulkan1');
  assert.is(loaded.placement?.devices.length, 3);
  for (const bytes of bytesOf(loaded)) assert.ok(bytes > 0);
});

for (const [settings, message] of [
  [{ main_gpu: 'Vulkan7' }, 'main_gpu is Vulkan7, and this machine has 2 GPUs: Vulkan0, Vulkan1'],
  [{ tensor_split: [1] }, 'tensor_split must have a share for each GPU: it has 1, and the GPUs are Vulkan0, Vulkan1'],
] as const) {
  onSoftwareGpu(`a wrong ${Object.keys(settings).join()} is refused by name`, async () => {
    const error: unknown = await answerWith(settings).catch((reason: unknown) => reason);
    assert.instance(error, SvcError);
    assert.is((error as SvcError).code, 'CONFIG_INVALID');
    assert.is((error as SvcError).message, message);
  });
}

test.run();
