/** `models.NAME` in the config: what is accepted, where errors are, and how its settings are addressed. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parseConfig } from '../../src/config/config.ts';
import { modelNamesIn } from '../../src/config/model-settings.ts';
import { pathOf, settingNames } from '../../src/config/settings.ts';
import { chainOf, loadSettingsOf, merged } from '../../src/protocol/model/settings.ts';

const namesOf = (source: string): object => {
  const { config, problems } = parseConfig(source);
  assert.equal(problems, []);
  return modelNamesIn(config.models);
};
const problemOf = (source: string): string => {
  const [problem] = parseConfig(source).problems;
  assert.ok(problem, source);
  return `${String(problem.line)}:${String(problem.column)}: ${problem.message}`;
};

test('names stand beside the settings of the section', () => {
  const source = `{ "models": {
    "keep_alive_seconds": 60,
    "llama3.2-16k": { "from": "llama3.2", "context_length": 16384, "keep_alive": "1h30m" },
    "hf/x:Q4_K_M": { "system": "Be brief.", "sampling": { "temperature": 0.2, "top_k": 5 }, "stop": ["END"], "draft": null },
  } }`;
  assert.equal(namesOf(source), {
    'llama3.2-16k': { from: 'llama3.2', context_length: 16_384, keep_alive: 5400 },
    'hf/x:Q4_K_M': { system: 'Be brief.', sampling: { temperature: 0.2, top_k: 5 }, stop: ['END'], draft: null },
  });
  const { models } = parseConfig(source).config;
  assert.is(models.keep_alive_seconds, 60);
  assert.ok(settingNames({ models }).includes('models.llama3.2-16k.context_length'));
  assert.equal(namesOf('{}'), {});
});

test('errors name the field, with its place', () => {
  for (const [models, message] of [
    ['{"dir": {"from": "a"}}', /^1:20: "models.dir" is a setting of svc and cannot be the name of a model/],
    ['{"keep_alive_seconds": {}}', /"models.keep_alive_seconds" is a setting of svc/],
    ['{"keep_alive": 5}', /^1:27: "models.keep_alive" is not a setting of svc; the settings of a model/],
    ['{"a": {"form": "b"}}', /^1:19: unknown key "models.a.form"/],
    ['{"a": {"sampling": {"temperature": -1}}}', /^1:47: "models.a.sampling.temperature" must be at least 0/],
    ['{"a": {"sampling": {"temperatur": 1}}}', /unknown key "models.a.sampling.temperatur"/],
    ['{"a": {"sampling": 3}}', /"models.a.sampling" must be an object/],
    ['{"a": {"context_length": 2}}', /"models.a.context_length" must be at least 64/],
    ['{"a": {"cache_type": "q4_0"}}', /"models.a.cache_type" must be f16 or q8_0/],
    ['{"a": {"main_gpu": 16}}', /"models.a.main_gpu" must be at most 15/],
    ['{"a": {"main_gpu": []}}', /"models.a.main_gpu" must be the name of a GPU, or its number from 0 to 15/],
    ['{"a": {"main_gpu": ""}}', /"models.a.main_gpu" must not be empty/],
    ['{"a": {"tensor_split": 3}}', /"models.a.tensor_split" must be a list of shares, one for each GPU/],
    ['{"a": {"tensor_split": []}}', /"models.a.tensor_split" must have a share for each GPU/],
    ['{"a": {"tensor_split": [1, -1]}}', /"models.a.tensor_split.1" must be at least 0/],
    ['{"a": {"tensor_split": [0, 0]}}', /"models.a.tensor_split" must have a share above 0/],
    ['{"a": {"main_gpu": 0, "tensor_split": [1]}}', /^1:50: "models.a.tensor_split" cannot be combined with main_gpu$/],
    ['{"a": {"cpu_experts": "some"}}', /"models.a.cpu_experts" must be a number of layers, or "all"/],
    ['{"a": {"cpu_experts": -1}}', /"models.a.cpu_experts" must be at least 0/],
    ['{"a": {"reasoning": "much"}}', /"models.a.reasoning" must be one of none, minimal/],
    ['{"a": {"keep_alive": "soon"}}', /"models.a.keep_alive" must be seconds, or a duration/],
    ['{"a": {"system": ""}}', /"models.a.system" must not be empty/],
    ['{"a": {"lora": {}}}', /"models.a.lora" must be array/],
    ['{"a": {"lora": [{"id": "x"}]}}', /^1:28: "models.a.lora.0.scale" is required/],
    ['{"a": {"lora": [{"id": "x", "scale": "1"}]}}', /"models.a.lora.0.scale" must be number/],
    ['{"a": {"lora": [{"id": "x", "scale": 1, "path": "y"}]}}', /unknown key "models.a.lora.0.path"/],
    ['{"default": {}}', /"models.default" cannot be the name of a model/],
    ['{"-a": {}}', /"models.-a" cannot be the name of a model/],
    ['{"A": {}, "a": {}}', /"models.A" is the same name as "a": case is ignored/],
  ] as const) {
    assert.match(problemOf(`{"models": ${models}}`), message);
  }
});

test('a circle of names is an error at its `from`', () => {
  assert.match(
    problemOf('{"models": {\n"a": {"from": "b"},\n"b": {"from": "A"}}}'),
    /^2:15: "models.a.from" is a circle: a → b → a$/,
  );
  const chain = Array.from({ length: 10 }, (_, at) => `"n${String(at)}": {"from": "n${String(at + 1)}"}`);
  assert.match(problemOf(`{"models": {${chain.join(', ')}}}`), /"models.n0.from" is a chain of more than 8 names/);
  namesOf('{"models": {"a": {"from": "a"}}}');
});

test('chains end at an installed model; settings add up', () => {
  const names = { a: { from: 'B' }, b: { from: 'qwen' }, qwen: { system: 'x' } };
  assert.equal(chainOf(names, 'A'), { names: ['a', 'b', 'qwen'], base: 'qwen' });
  assert.equal(chainOf(names, 'other'), { names: [], base: 'other' });
  assert.equal(
    merged(
      { from: 'x', system: 'old', sampling: { temperature: 1, top_k: 2 }, draft: 'd' },
      { sampling: { temperature: 0 }, draft: null },
    ),
    { system: 'old', sampling: { temperature: 0, top_k: 2 }, draft: null },
  );
});

test('a setting below a name with dots is found', () => {
  for (const [name, path] of [
    ['models.dir', ['models', 'dir']],
    ['models.mario.system', ['models', 'mario', 'system']],
    ['models.llama3.2-16k.sampling.top_k', ['models', 'llama3.2-16k', 'sampling', 'top_k']],
    ['models.llama3.2-16k', ['models', 'llama3.2-16k']],
    ['models.hf/a/b-1.5:Q4_K_M.keep_alive', ['models', 'hf/a/b-1.5:Q4_K_M', 'keep_alive']],
    ['providers.openai.base_url', ['providers', 'openai', 'base_url']],
  ] as const) {
    assert.equal(pathOf(name), [...path]);
  }
});

test('one GPU, or shares of all: the nearer choice replaces the farther one', () => {
  assert.match(
    problemOf('{"engine": {\n"main_gpu": "CUDA0", "tensor_split": [1]}}'),
    /^2:38: "engine.tensor_split" cannot be combined with main_gpu$/,
  );
  const engine = { main_gpu: 0, cpu_experts: 'all', gpu_layers: 3 } as const;
  assert.equal(loadSettingsOf({}, engine), { gpu_layers: 3, main_gpu: '0', cpu_experts: 10_000, draft: null });
  assert.equal(loadSettingsOf({ tensor_split: [3, 1], cpu_experts: 0 }, engine), {
    gpu_layers: 3,
    tensor_split: [3, 1],
    cpu_experts: 0,
    draft: null,
  });
  assert.equal(merged({ tensor_split: [3, 1] }, { main_gpu: 'CUDA1' }), { main_gpu: 'CUDA1' });
  assert.equal(merged({ tensor_split: [3, 1] }, { gpu_layers: 2 }), { tensor_split: [3, 1], gpu_layers: 2 });
});

test.run();
