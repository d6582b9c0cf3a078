/** Log lines of libllama, delivered on the JavaScript thread. */
import { spawnSync } from 'node:child_process';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { openAddon, openEngine } from '../support/native-engine.ts';
import { waitFor } from '../support/wait.ts';

const support = new URL('../support/native-engine.ts', import.meta.url).href;
const LEVELS = new Set(['debug', 'info', 'warn', 'error']);

test('without a logger nothing is written', () => {
  const program = `import { openEngine } from ${JSON.stringify(support)}; await (await openEngine('tiny-llama')).native.close();`;
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--import', 'tsx', '--input-type=module', '-e', program],
    { encoding: 'utf8' },
  );
  assert.is(status, 0, stderr);
  assert.is(stdout + stderr, '');
});

test('a load is logged line by line with levels, to the logger set last', async () => {
  const addon = openAddon();
  const first: string[] = [];
  const lines: { level: string; text: string }[] = [];
  addon.setLogger((_, text) => first.push(text));
  addon.setLogger((level, text) => lines.push({ level, text }));
  const engine = await openEngine('tiny-qwen2');
  await waitFor('the architecture in the log', () => lines.some(({ text }) => text.includes('qwen2')));
  assert.ok(lines.every(({ level, text }) => LEVELS.has(level) && text.length > 0 && !text.includes('\n')));
  assert.equal(first, []);

  const secret = 'xyzzy plugh';
  lines.length = 0;
  await engine.generate({ id: 1, messages: [{ role: 'user', content: secret }], max_tokens: 5 });
  await engine.native.close();
  assert.not(lines.some(({ text }) => text.includes('xyzzy') || text.includes('plugh')));
});

test('a cancelled step is not logged as a failure', async () => {
  const addon = openAddon();
  const lines: { level: string; text: string }[] = [];
  addon.setLogger((level, text) => lines.push({ level, text }));
  const engine = await openEngine('tiny-llama');
  await engine.generate({ id: 1, prompt: 'hello', max_tokens: 2 });
  lines.length = 0;
  let id = 1;
  // A cancel between two steps leaves no line; repeats until a cancel falls into a step.
  await waitFor('an aborted step in the log', async () => {
    id++;
    const answered = engine.answer(id);
    await engine.native.submit({ id, prompt: 'how now brown cow '.repeat(100) });
    engine.native.cancel(id);
    assert.is((await answered).finish.reason, 'cancelled');
    return lines.some(({ text }) => text.includes('ret = 2'));
  });
  await engine.native.close();
  assert.equal(
    lines.filter(({ level }) => level === 'error' || level === 'warn'),
    [],
  );
});

test('a logger may replace itself while it is called', async () => {
  const addon = openAddon();
  let last = '';
  addon.setLogger(() => {
    addon.setLogger((_, text) => (last = text));
  });
  const engine = await openEngine('tiny-llama');
  await engine.native.close();
  await waitFor('the second logger', () => last.length > 0);
});

test.run();
