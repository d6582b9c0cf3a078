/** Models on two GPUs, for which the one device of the software driver is opened twice. */
import * as assert from 'uvu/assert';
import { PROOF_QUESTIONS } from '../../src/engine/gpu-proof.ts';
import type { LoadedModel } from '../../src/protocol/records.ts';
import { assertExit } from '../support/exit.ts';
import { COMPILED_MS, SOFTWARE_GPU } from '../support/gpu-backends.ts';
import { configure } from '../support/home.ts';
import { unless } from '../support/skip.ts';
import { svc } from '../support/svc.ts';
import { svcSuite } from '../support/svc-suite.ts';

const [QUESTION = ''] = PROOF_QUESTIONS;

/** By name: the settings of a model, and the devices that have a part of it. */
const PLACES: Readonly<Record<string, readonly [settings: object, devices: readonly string[]]>> = {
  processor: [{ gpu_layers: 0 }, []],
  automatic: [{}, ['Vulkan0', 'Vulkan1']],
  divided: [{ tensor_split: [3, 1] }, ['Vulkan0', 'Vulkan1']],
  second: [{ main_gpu: 'Vulkan1' }, ['Vulkan1']],
  unshared: [{ tensor_split: [0, 2] }, ['Vulkan1']],
};

const test = svcSuite('two GPUs');

unless(SOFTWARE_GPU === null ? 'no software driver is installed' : undefined, test)(
  'a model is where its settings put it, and answers as on the processor',
  async ({ home }) => {
    const run = (...args: string[]) =>
      svc(args, { home, env: { ...SOFTWARE_GPU, GGML_VK_VISIBLE_DEVICES: '0,0' }, timeoutMs: COMPILED_MS });
    const settings = Object.entries(PLACES).map(([name, [model]]) => [name, model] as const);
    const models = [...settings, ['absent', { main_gpu: 'Vulkan2' }] as const];
    const config = { models: Object.fromEntries(models.map(([name, model]) => [name, { from: 'builtin', ...model }])) };
    configure(home, config);
    assertExit(await run('start', '--timeout', '10m'), 0);

    const answers = new Map<string, string>();
    for (const [name, [, devices]] of Object.entries(PLACES)) {
      const answer = await run('run', QUESTION, '--model', name, '--temperature', '0');
      assertExit(answer, 0);
      answers.set(name, answer.stdout);
      const { placement } = JSON.parse((await run('model', 'show', name, '--json')).stdout).loaded as LoadedModel;
      const gpus = placement?.devices.map((device) => device.name).filter((device) => device.startsWith('Vulkan'));
      assert.equal(gpus ?? [], devices, name);
    }
    assert.is(new Set(answers.values()).size, 1, JSON.stringify([...answers]));
    const refused = await run('run', QUESTION, '--model', 'absent');
    assertExit(refused, 78);
    assert.match(refused.stderr, /main_gpu is Vulkan2, and this machine has 2 GPUs: Vulkan0, Vulkan1/);
  },
);

test.run();
