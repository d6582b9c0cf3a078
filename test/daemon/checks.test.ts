import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Checks, judgeBytes } from '../../src/daemon/checks.ts';
import { Conditions } from '../../src/daemon/conditions.ts';
import { createLogger } from '../../src/log/log.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import type { CheckStatus, ModelRecord } from '../../src/protocol/records.ts';

const MISSING = join(tmpdir(), 'not', 'there');

test('bytes are compared with a warning and a failure threshold', () => {
  const bounds = { warnBytes: 1000, failBytes: 100 };
  for (const [bytes, status] of [
    [1000, 'ok'],
    [999, 'warn'],
    [100, 'warn'],
    [99, 'fail'],
    [0, 'fail'],
  ] as const) {
    assert.is(judgeBytes(bytes, bounds, 'ok'), status, String(bytes));
  }
});

test('a value that oscillates around a threshold does not flap (hysteresis)', () => {
  const bounds = { warnBytes: 1000, failBytes: 100 };
  let status: CheckStatus = 'ok';
  const seen: CheckStatus[] = [];
  for (const bytes of [1010, 990, 1010, 990, 1050, 1101, 1010, 95, 105, 95, 111, 1150]) {
    status = judgeBytes(bytes, bounds, status);
    seen.push(status);
  }
  assert.equal(seen, ['ok', 'warn', 'warn', 'warn', 'warn', 'ok', 'ok', 'fail', 'fail', 'fail', 'warn', 'ok']);
});

function checked(store: { list(): Promise<readonly ModelRecord[]>; find(): Promise<ModelRecord> }): {
  conditions: Conditions;
  checks: Checks;
} {
  const conditions = new Conditions(createLogger({ level: 'silent' }));
  return {
    conditions,
    checks: new Checks({
      conditions,
      store,
      paths: {
        stateDir: tmpdir(),
        cacheDir: MISSING,
        dataDir: MISSING,
        daemonFile: MISSING,
        logFile: MISSING,
        credentialsFile: MISSING,
        configFile: MISSING,
      },
      fileTroubles: () => [],
      modelsDir: MISSING,
      version: () => Promise.resolve('0.0.0'),
      apiKeys: () => Promise.resolve({ status: 'ok', reason: 'none' }),
      providers: () => ({ status: 'ok', reason: 'none configured' }),
    }),
  };
}

test('every check has a result, even if a directory does not exist yet', async () => {
  const model = { id: 'm1' } as ModelRecord;
  const { conditions, checks } = checked({ list: () => Promise.resolve([model]), find: () => Promise.resolve(model) });
  await checks.run();
  assert.is(conditions.get('model_store').reason, '1 installed, the default is m1');
  for (const name of ['disk_space', 'storage', 'memory', 'model_store'] as const) {
    assert.is.not(conditions.get(name).reason, 'not checked yet');
  }
});

test('while the status is ok, the reason contains no figure that changes constantly', async () => {
  const model = { id: 'm1' } as ModelRecord;
  const { conditions, checks } = checked({ list: () => Promise.resolve([model]), find: () => Promise.resolve(model) });
  await checks.run();
  for (const name of ['disk_space', 'memory'] as const) {
    const { status, reason } = conditions.get(name);
    assert.match(reason, status === 'ok' ? /^more than \d+ MiB |^not measured/ : /^about \d\d?0* MiB /, name);
  }
});

test('a model with a broken file is a warning that names the model', async () => {
  const models = [
    { id: 'm1', state: 'installed' },
    { id: 'm2', state: 'failed' },
  ] as ModelRecord[];
  const { conditions, checks } = checked({
    list: () => Promise.resolve(models),
    find: () => Promise.resolve(models[0]!),
  });
  await checks.run();
  assert.is(conditions.get('model_store').status, 'warn');
  assert.is(conditions.get('model_store').reason, 'models that cannot be loaded: m2');
});

test('a store that cannot be read fails with its reason, and recovers', async () => {
  let broken = true;
  const model = { id: 'm1' } as ModelRecord;
  const find = (): Promise<ModelRecord> => {
    return broken
      ? Promise.reject(new SvcError('MODEL_NOT_FOUND', 'the default model is gone'))
      : Promise.resolve(model);
  };
  const { conditions, checks } = checked({ list: () => Promise.resolve([]), find });
  await checks.run();
  assert.is(conditions.get('model_store').status, 'fail');
  assert.is(conditions.get('model_store').reason, 'the default model is gone');
  broken = false;
  await checks.run();
  assert.is(conditions.get('model_store').status, 'ok');
});

test.run();
