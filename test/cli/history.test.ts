/** Kept conversations: off by default, kept by `svc chat` and `svc run --continue`, listed, shown and deleted. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Conversation, ConversationSummary } from '../../src/home/conversations.ts';
import type { GenerateResult } from '../../src/protocol/generate.ts';
import { assertExit } from '../support/exit.ts';
import { makeHome } from '../support/home.ts';
import { svc, type SvcResult } from '../support/svc.ts';
import type { SvcContext } from '../support/svc-suite.ts';

interface Context extends SvcContext {
  folder: string;
  list(): Promise<{ enabled: boolean; conversations: ConversationSummary[] }>;
  chat(input: string): Promise<SvcResult>;
}

const SECRET = 'zanzibar';
const STEADY = ['--temperature', '0', '--max-tokens', '6'];

const test = suite<Context>('history');
test.before(async (context) => {
  const home = (context.home = await makeHome());
  context.run = (...args) => svc(args, { home });
  context.folder = join(home.dir, 'data', 'history');
  context.list = async () => JSON.parse((await context.run('history', 'list', '--json')).stdout) as never;
  context.chat = (input) => svc(['chat', ...STEADY, '-s', 'Be brief'], { home, input });
  assert.is((await context.run('model', 'add', '--name', 'random', model('tiny-qwen2'))).code, 0);
  assert.is((await context.run('start', '--timeout', '150s')).code, 0);
});
test.after(async ({ home, run }) => {
  await run('stop', '--force');
  await home.remove();
});

const model = (name: string): string => join(import.meta.dirname, '..', '..', 'build', 'models', `${name}.gguf`);
const ok = (result: SvcResult): string => {
  assertExit(result, 0);
  return result.stdout;
};

test('nothing is written while it is off', async ({ run, chat, folder, list }) => {
  ok(await chat(`${SECRET} one\n`));
  assert.not.ok(existsSync(folder));
  const refused = await run('run', '--continue', 'hi');
  assertExit(refused, 78);
  assert.match(refused.stderr, /conversations are not kept.*\nhint: .*svc config set history\.enabled true/);
  assert.equal(await list(), { enabled: false, conversations: [] });
  assert.match((await run('history', 'list')).stderr, /conversations are not kept/);
});

test('a chat is kept, run --continue goes on with it, and the commands read and delete it', async ({
  home,
  run,
  chat,
  folder,
  list,
}) => {
  const set = ok(await run('config', 'set', 'history.enabled', 'true', '--json'));
  assert.not.match(set, /"restart_needed": true/);
  ok(await chat(`${SECRET} one\n${SECRET} two\n/clear\nafter\n`));
  const { conversations } = await list();
  assert.equal(
    conversations.map(({ title, turns, model: by }) => [title, turns, by]),
    [
      ['after', 1, 'builtin'],
      [`${SECRET} one`, 2, 'builtin'],
    ],
  );
  const [newest, oldest] = conversations;
  assert.is(statSync(join(folder, `${newest?.id ?? ''}.json`)).mode & 0o777, 0o600);

  const more = JSON.parse(ok(await run('run', ...STEADY, '--json', '-c', 'and', 'more'))) as GenerateResult;
  const shown = JSON.parse(ok(await run('history', 'show', 'last', '--json'))) as Conversation;
  assert.is(shown.id, newest?.id);
  assert.equal(
    shown.messages.map(({ role }) => role),
    ['system', 'user', 'assistant', 'user', 'assistant'],
  );
  assert.equal(
    shown.messages.slice(3).map(({ content }) => content),
    ['and more', more.text],
  );
  // The whole conversation was sent.
  const alone = JSON.parse(ok(await run('run', ...STEADY, '--json', 'and', 'more'))) as GenerateResult;
  assert.ok((more.usage?.input_tokens ?? 0) > (alone.usage?.input_tokens ?? 0));
  assert.is((await list()).conversations.length, 2, 'run without --continue keeps nothing');

  // The model that is chosen stays that of the conversation.
  ok(await run('run', ...STEADY, '--continue', 'random', 'again'));
  assert.is((JSON.parse(ok(await run('run', ...STEADY, '--json', '-c', 'once'))) as GenerateResult).model, 'random');

  assert.match(ok(await run('history', 'show', oldest?.id ?? '')), new RegExp(`user: ${SECRET} one\n\nassistant: `));
  assert.match(ok(await run('history', 'list')), /^ID +LAST \(UTC\) +MODEL +TURNS +BEGINS\n.*random +4 +after\n/);
  ok(await run('history', 'rm', oldest?.id ?? ''));
  assert.is((await list()).conversations.length, 1);
  const gone = await run('history', 'show', oldest?.id ?? '');
  assertExit(gone, 2);
  assert.match(gone.stderr, /there is no kept conversation/);
  assertExit(await run('history', 'clear'), 2, 'without a terminal it needs --yes');
  assert.match(ok(await run('history', 'clear', '--yes')), /^removed 1 conversation\n$/);
  assert.equal(readdirSync(folder), []);

  // A first `run --continue` begins one.
  ok(await run('run', ...STEADY, '--continue', 'hello'));
  assert.is((await list()).conversations[0]?.title, 'hello');
  assert.not.match(readFileSync(join(home.dir, 'state', 'daemon.log'), 'utf8'), new RegExp(SECRET));
});

test.run();
