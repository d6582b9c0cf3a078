/**
 * One call of every command about a real daemon, with models, keys, providers and conversations: for tests over all
 * commands. The commands are those of the program, so that a new one is included.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as assert from 'uvu/assert';
import { loadSpecs } from '../../src/cli/commands.ts';
import { FakeHub } from '../models/pull/fake-hub.ts';
import { modelOf } from '../models/pull/pull-support.ts';
import { configure, makeHome, type Home } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { svc } from '../support/svc.ts';

const PROGRAM = fileURLToPath(new URL('print-calls.ts', import.meta.url));
export const LONG_NAME = 'a-name-that-is-longer-than-a-narrow-terminal-is-wide';
const MEGABYTE = 1024 * 1024;

export const commands: readonly string[] = Object.keys(await loadSpecs());

export interface Call {
  readonly columns: number;
  readonly args: readonly string[];
}

/** Arguments of each call of a command. `n` differs between the calls of a test, `dir` has files. */
export type Calls = Readonly<Record<string, (given: { n: string; dir: string }) => string[][]>>;

/** What each command is called with that needs arguments, or has several texts. */
export const CALLS: Calls = {
  health: () => [[], ['--source', 'grpc']],
  doctor: () => [['--offline']],
  uninstall: () => [['--dry-run']],
  'history clear': () => [['--yes']],
  usage: () => [[], ['--by', 'key']],
  bench: () => [['--runs', '1', '--prompt-tokens', '16', '--max-tokens', '4']],
  'model show': () => [['builtin'], [LONG_NAME], ['talker']],
  'model add': ({ n }) => [[modelPath('tiny-llama'), '--name', `added-${n}`]],
  'model create': ({ n, dir }) => [[`created-${n}`, '-f', join(dir, 'Modelfile')]],
  'model pull': () => [['hf:acme/Tiny-GGUF']],
  'model search': () => [[], ['tiny']],
  'model rm': ({ n }) => [['--yes', `added-${n}`]],
  'model verify': () => [[], ['builtin']],
  'model quantize': ({ n }) => [['small', 'Q8_0', '--allow-requantize', '--name', `quantized-${n}`]],
  'model default': () => [[LONG_NAME]],
  'model load': () => [['small']],
  'model unload': () => [['small']],
  'key rm': ({ n }) => [[`key-${n}`]],
  'provider list': () => [[], ['--all'], ['--probe']],
  'provider set': ({ n }) => [[`provider-${n}`, '--base-url', 'http://127.0.0.1:9/v1/a/long/path/of/a/provider']],
  'provider unset': ({ n }) => [[`provider-${n}`]],
  'provider test': () => [['closed']],
  'config show': () => [[], ['--origin']],
  'config set': () => [['log.level', 'debug']],
  'config unset': () => [['log.level']],
  'service install': () => [],
};

export interface World {
  readonly home: Home;
  readonly env: Readonly<Record<string, string | undefined>>;
  stop(): Promise<void>;
}

/** Starts a daemon that each command has something to tell about. `names`: the values of `n`. */
export async function makeWorld(names: readonly string[]): Promise<World> {
  const home = await makeHome();
  const hub = new FakeHub();
  await hub.start();
  hub.add('acme/Tiny-GGUF', 'Tiny-Q4_K_M.gguf', modelOf(MEGABYTE));
  const { dir } = home;
  const env = {
    ...home.env,
    // `svc uninstall` refuses a home that is the user's, or above it.
    HOME: '/nonexistent',
    XDG_CONFIG_HOME: join(dir, 'xdg'),
    HF_ENDPOINT: hub.endpoint,
    NO_COLOR: undefined,
  };
  configure(home, {
    history: { enabled: true },
    models: { talker: { from: 'builtin', system: 'いつも日本語で答えてください。🎉 '.repeat(12) } },
    providers: {
      closed: { base_url: ['http://127.0.0.1:9/v1', 'http://127.0.0.1:10/v1'], default_model: LONG_NAME },
    },
  });
  const run = async (...args: string[]): Promise<string> => {
    const result = await svc(args, { home });
    assert.is(result.code, 0, `svc ${args.join(' ')}: ${result.stderr}`);
    return result.stdout.trim();
  };
  await run('model', 'add', modelPath('tiny-llama'), '--name', LONG_NAME);
  await run('model', 'add', modelPath('tiny-qwen2'), '--name', 'small', '--copy');
  writeFileSync(join(dir, 'Modelfile'), 'FROM builtin\nSYSTEM """Answer briefly."""\n');
  for (const name of names) await run('key', 'add', `key-${name}`, '--models', `builtin,${LONG_NAME}`);
  const key = await run('key', 'add', 'admin', '--scope', 'admin');
  await run('start', '--timeout', '150s');
  await run('run', '--max-tokens', '4', '-m', LONG_NAME, 'Hello');
  await run('run', '--max-tokens', '4', '--continue', 'Hello');
  return {
    home,
    env: { ...env, SVC_API_KEY: key },
    async stop() {
      await svc(['stop', '--force'], { home });
      await hub.stop();
      await home.remove();
    },
  };
}

/** The commands but `without`, in an order in which each can work. */
export function inOrder(without: Readonly<Record<string, string>>): string[] {
  // A restart sets this process's variables to the daemon's; a stop ends what the others show.
  const last = ['restart', 'stop'];
  const order = [...commands.filter((name) => !last.includes(name)), ...last];
  return order.filter((name) => !(name in without));
}

/** Returns the command that makes the calls one after the other, and prints `<<<N>>>` before each. */
export function programOf(calls: readonly Call[], { dir }: Pick<Home, 'dir'>): string[] {
  const file = join(dir, 'calls.json');
  writeFileSync(file, JSON.stringify(calls));
  return [process.execPath, '--import', import.meta.resolve('tsx'), PROGRAM, file];
}

/** Splits what that command printed into the texts of its calls. */
export function textsOf(printed: string): string[] {
  return printed.split(/^<<<\d+>>>$/m).slice(1);
}
