/** The chat in a real browser: with a model of this machine, and with a provider whose answer the test holds back. */
import { test as suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Page } from 'playwright-core';
import { startUpstream, type Turn, type Upstream } from '../backends/cloud/upstream.ts';
import { makeGate, type Gate } from '../support/gate.ts';
import { unless } from '../support/skip.ts';
import { waitFor } from '../support/wait.ts';
import { noBrowser, openConsole, PATIENCE_MS, type Console } from './browser.ts';

const test = unless(noBrowser, suite);

let upstream: Upstream;
let served: Console;
let page: Page;
/** Opened when the provider may end its answer. */
let gate: Gate;

suite.before(async () => {
  if (noBrowser !== undefined) return;
  upstream = await startUpstream();
  served = await openConsole({
    models: { tiny: 'tiny-llama' },
    config: {
      providers: { farm: { base_url: `${upstream.url}/v1`, default_model: 'sage' } },
      policies: { thrifty: { candidates: ['farm/sage', 'local'] } },
    },
  });
});
suite.after(async () => {
  if (noBrowser !== undefined) return;
  await served.close();
  await upstream.close();
  assert.equal(served.problems, []);
});
suite.before.each(async () => {
  if (noBrowser !== undefined) return;
  gate = makeGate();
  page = await served.open('#/chat');
});
suite.after.each(async () => {
  if (noBrowser !== undefined) return;
  gate.open();
  await page.close();
});

const delta = (text: string): object => ({ choices: [{ index: 0, delta: { content: text } }] });

/** Answers with some text, then the rest once the gate is open. */
function answerInParts(first: string, rest: string): void {
  upstream.script(async (turn: Turn) => {
    await turn.event(delta(first));
    await Promise.race([gate.opened, turn.over()]);
    await turn.event(delta(rest));
    await turn.event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage: null });
    await turn.event({ choices: [], usage: { prompt_tokens: 7, completion_tokens: 11 } });
    await turn.event('[DONE]');
    turn.end();
  });
}

async function ask(text: string, model = 'farm/sage'): Promise<void> {
  await page.getByLabel('Model', { exact: true }).selectOption(model);
  await page.getByRole('textbox', { name: 'Message' }).fill(text);
  await page.keyboard.press('Enter');
}

const answer = (): ReturnType<Page['locator']> => page.locator('.turn.assistant').last();

test('an answer is shown while it streams, then with its model, tokens and speed', async () => {
  answerInParts('The **river** ', 'runs.');
  await ask('Tell me');
  await answer().locator('strong', { hasText: 'river' }).waitFor();
  assert.not.match(await answer().innerText(), /runs/);
  gate.open();
  await answer().getByText('farm/sage').waitFor();
  assert.match(await answer().innerText(), /The river runs\.[^]*farm\/sage · 7 \+ 11 tokens/);
});

test('an answer is stopped: what it has said stays, and the provider is told', async () => {
  answerInParts('Once upon a time', ' there was more');
  const before = upstream.asked.length;
  await ask('A story');
  await answer().getByText('Once upon a time').waitFor();
  await page.getByRole('button', { name: 'Stop the answer' }).click();
  await answer().getByText('stopped').waitFor();
  assert.match(await answer().innerText(), /Once upon a time/);
  await waitFor('the provider to be left', () => upstream.asked.length === before + 1 && upstream.connections() === 0);
  await page.getByRole('button', { name: 'Send' }).waitFor();
});

test('Escape in the message field stops, and a turn is edited and asked again', async () => {
  answerInParts('First answer', '');
  await ask('Wrong qestion');
  await answer().getByText('First answer').waitFor();
  await page.getByRole('textbox', { name: 'Message' }).press('Escape');
  await answer().getByText('stopped').waitFor();
  gate.open();
  answerInParts('Second answer', '.');
  await page.getByRole('button', { name: 'Edit and ask again' }).click();
  await page.getByRole('textbox', { name: 'Edited message' }).fill('Right question');
  await page.keyboard.press('Enter');
  await answer().getByText('Second answer.').waitFor();
  assert.is(await page.locator('.turn').count(), 2);
  assert.is(upstream.asked.at(-1)?.body.messages.at(-1).content, 'Right question');
});

test('an answer is asked for again', async () => {
  gate.open();
  answerInParts('One', '.');
  await ask('Count');
  await answer().getByText('One.').waitFor();
  answerInParts('Two', '.');
  await page.getByRole('button', { name: 'Answer again' }).click();
  await answer().getByText('Two.').waitFor();
  assert.is(await page.locator('.turn.assistant').count(), 1);
  assert.equal(
    upstream.asked.at(-1)?.body.messages.map(({ role }: { role: string }) => role),
    ['user'],
  );
});

test('a tool call is shown with its arguments, and takes its result', async () => {
  upstream.script(async (turn) => {
    const call = { index: 0, id: 'call_1', function: { name: 'weather', arguments: '{"city":"Köln"}' } };
    if (turn.request.body.messages.at(-1).role === 'tool') await turn.event(delta('It is 12 degrees.'));
    else await turn.event({ choices: [{ index: 0, delta: { tool_calls: [call] } }] });
    await turn.event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
    await turn.event('[DONE]');
    turn.end();
  });
  await page.getByRole('button', { name: 'Options' }).click();
  await page.getByLabel('Tools, a JSON array').fill('[{"name": "weather", "parameters": {"type": "object"}}]');
  await page.getByRole('button', { name: 'Done' }).click();
  await ask('Weather?');
  await page.getByText('"city": "Köln"').waitFor();
  await page.getByRole('textbox', { name: 'Result of weather' }).fill('12');
  await page.getByRole('button', { name: 'Give' }).click();
  await answer().getByText('It is 12 degrees.').waitFor();
  assert.equal(upstream.asked.at(-1)?.body.messages.at(-1), { role: 'tool', content: '12', tool_call_id: 'call_1' });
});

test('calls without a result are left out of what follows', async () => {
  const call = (index: number): object => ({
    index,
    id: `call_${index}`,
    function: { name: `tool_${index}`, arguments: '{}' },
  });
  upstream.script(async (turn) => {
    const isFirst = turn.request.body.messages.length === 1;
    if (isFirst) await turn.event({ choices: [{ index: 0, delta: { tool_calls: [call(0), call(1)] } }] });
    else await turn.event(delta('Never mind.'));
    await turn.event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
    await turn.event('[DONE]');
    turn.end();
  });
  await ask('Call');
  const result = page.getByRole('textbox', { name: /^Result of/ });
  await result.nth(1).waitFor();
  await ask('Go on without');
  await answer().getByText('Never mind.').waitFor();
  const sent = (): object[] => upstream.asked.at(-1)?.body.messages;
  assert.equal(sent(), [
    { role: 'user', content: 'Call' },
    { role: 'user', content: 'Go on without' },
  ]);
  assert.is(await result.count(), 0, 'a result that comes too late');

  await page.reload();
  await ask('Call');
  await page.getByRole('textbox', { name: 'Result of tool_1' }).fill('12');
  await page.keyboard.press('Enter');
  await result.nth(1).waitFor({ state: 'detached' });
  await ask('Go on with one');
  await answer().getByText('Never mind.').waitFor();
  const [, called, given, last] = sent() as [object, { tool_calls: { id: string }[] }, object, object];
  assert.equal(
    called.tool_calls.map(({ id }) => id),
    ['call_1'],
  );
  assert.equal(
    [given, last],
    [
      { role: 'tool', content: '12', tool_call_id: 'call_1' },
      { role: 'user', content: 'Go on with one' },
    ],
  );
});

test('what a model writes is not trusted: no script, no style, no picture of another server', async () => {
  gate.open();
  const evil = [
    '<img src=x onerror="document.title=1">',
    '<script>document.title=2</script>',
    '<b style="position:fixed">bold</b>',
    '[link](javascript:document.title=3)',
    '![spy](https://spy.example/pixel.png)',
    '<iframe src="https://spy.example"></iframe><form action="/x"><input name=a></form>',
    '<svg><a xlink:href="javascript:1"><text>x</text></a></svg>',
    '```js\nalert(1)\n```',
  ].join('\n\n');
  answerInParts(evil, '.');
  const requests: string[] = [];
  page.on('request', (request) => requests.push(request.url()));
  await ask('Attack');
  await answer().getByRole('button', { name: 'Copy code' }).waitFor();
  const markdown = answer().locator('.markdown');
  assert.is(await markdown.locator('img, script, iframe, form, input, svg, [style], [onerror]').count(), 0);
  assert.equal(await markdown.locator('a').evaluateAll((links) => links.map((link) => link.getAttribute('href'))), [
    null,
    'https://spy.example/pixel.png',
  ]);
  assert.match(await markdown.innerText(), /<script>document\.title=2<\/script>/);
  assert.is(await page.title(), 'Chat · svc');
  assert.equal(
    requests.filter((url) => !url.startsWith(served.url)),
    [],
  );
});

test('an answer of thousands of nested lists or quotes is shown, and stays usable', async () => {
  gate.open();
  for (const mark of ['1. ', '> ', '- ']) {
    answerInParts(mark.repeat(3000), 'deepest');
    await ask('Nest');
    await answer().getByText('deepest').waitFor();
    await answer().getByText('tokens').waitFor();
    await page.getByRole('button', { name: 'Send' }).waitFor();
  }
});

test('an answer that cannot be shown is plain text, and the page stays', async () => {
  gate.open();
  await page.evaluate(() => {
    // As an error of the library that reads Markdown.
    HTMLDivElement.prototype.replaceChildren = () => {
      throw new Error('broken');
    };
  });
  answerInParts('Some **text**', '.');
  await ask('Break');
  await answer().getByText('Some **text**.').waitFor();
  await page.getByRole('button', { name: 'Send' }).waitFor();
  assert.match(await page.locator('.turn.user').innerText(), /Break/);
});

test('a model of this machine answers, and every kind of name is offered', async () => {
  const groups = page.getByLabel('Model', { exact: true }).locator('optgroup');
  // The page has just been opened, and may not know the names yet.
  await groups.last().waitFor({ state: 'attached' });
  const labels = await groups.evaluateAll((all) => all.map((each) => (each as HTMLOptGroupElement).label));
  assert.equal(labels, ['On this machine', 'Providers', 'Policies']);
  await ask('Hello', '');
  await answer().getByText('builtin').waitFor();
  assert.match(await answer().innerText(), /builtin · \d+ \+ \d+ tokens · [\d,.]+ tokens\/s · first after/);
});

test('a name that is not listed is typed', async () => {
  gate.open();
  answerInParts('Large', '.');
  await page.getByLabel('Model', { exact: true }).selectOption('Another name…');
  await page.getByRole('textbox', { name: 'Name of the model' }).fill('farm/larger');
  await page.keyboard.press('Enter');
  await page.getByRole('textbox', { name: 'Message' }).fill('Hello');
  await page.keyboard.press('Enter');
  await answer().getByText('Large.').waitFor();
  assert.is(upstream.asked.at(-1)?.body.model, 'larger');
});

test('a picture is attached, shown and sent', async () => {
  gate.open();
  answerInParts('A dot', '.');
  const [chooser] = await Promise.all([
    page.waitForEvent('filechooser'),
    page.getByRole('button', { name: 'Attach pictures' }).click(),
  ]);
  await chooser.setFiles({ name: 'dot.png', mimeType: 'image/png', buffer: Buffer.from('not a real picture') });
  await page.getByRole('img', { name: 'dot.png' }).waitFor();
  await ask('What is it?');
  await answer().getByText('A dot.').waitFor();
  const content = upstream.asked.at(-1)?.body.messages[0].content;
  assert.equal(content[0], { type: 'text', text: 'What is it?' });
  assert.match(content[1].image_url.url, /^data:image\/png;base64,bm90IGEgcmVhbCBwaWN0dXJl$/);
});

test('wide code and tables scroll by themselves on a narrow screen, and the end of a long answer stays in sight', async () => {
  gate.open();
  const wide = 'x'.repeat(300);
  answerInParts(`\`\`\`\n${wide}\n\`\`\`\n\n| a | b |\n|---|---|\n| ${wide} | ${wide} |\n\n`, 'line\n\n'.repeat(60));
  await page.setViewportSize({ width: 360, height: 740 });
  await ask('Wide');
  await answer().getByText('tokens').waitFor();
  const { over, left } = await page.locator('.scroll').evaluate((element) => ({
    over: element.scrollWidth - element.clientWidth,
    left: element.scrollHeight - element.scrollTop - element.clientHeight,
  }));
  assert.is(over, 0);
  assert.ok(left < 48, `${left} pixels above the end`);
});

test('screen readers hear whole sentences, and the end', async () => {
  answerInParts('First sentence. Sec', 'ond sentence.');
  await page.evaluate(() => {
    const heard: string[] = [];
    Object.assign(window, { heard });
    new MutationObserver(() => {
      heard.push(document.querySelector('[aria-live]')?.textContent ?? '');
    }).observe(document.querySelector('[aria-live]') as Element, {
      childList: true,
      characterData: true,
      subtree: true,
    });
  });
  await ask('Talk');
  await answer().getByText('First sentence. Sec').waitFor();
  gate.open();
  await answer().getByText('Second sentence.').waitFor();
  const heard = async (): Promise<string[]> => page.evaluate(() => (window as unknown as { heard: string[] }).heard);
  await waitFor('the end to be heard', async () => (await heard()).at(-1)?.endsWith('End of the answer.'));
  assert.equal(await heard(), ['First sentence.', 'Second sentence. End of the answer.']);
});

/** Names of the conversations that are kept. */
const keptKeys = (tab: Page): Promise<string[]> =>
  tab.evaluate(() => Object.keys(localStorage).filter((name) => name.startsWith('svc.conversation')));

test('conversations end with the page, unless they are to be kept', async () => {
  gate.open();
  answerInParts('Kept', '.');
  await ask('Remember me');
  await answer().getByText('Kept.').waitFor();
  await page.reload();
  await page.getByText('What shall we work on?').waitFor();
  assert.equal(await keptKeys(page), []);

  await page.getByRole('button', { name: 'Conversations' }).click();
  await page.getByLabel('Keep conversations in this browser').check();
  await page.getByRole('button', { name: 'Close' }).click();
  await ask('Remember me');
  await answer().getByText('Kept.').waitFor();
  await page.reload();
  await answer().getByText('Kept.').waitFor();
  await page.getByRole('button', { name: 'Conversations' }).click();
  await page.getByRole('button', { name: 'Delete all' }).click();
  assert.equal(await keptKeys(page), []);
});

test('tabs keep their conversations beside each other, and a deleted one is gone in all', async () => {
  gate.open();
  const context = await served.browser.newContext();
  context.setDefaultTimeout(PATIENCE_MS);
  const tab = async (): Promise<Page> => {
    const opened = await context.newPage();
    await opened.goto(`${served.url}/#/chat`);
    await opened.getByText('What shall we work on?').waitFor();
    return opened;
  };
  const [one, other] = [await tab(), await tab()];
  const titles = one.locator('.history button.grow');
  for (const each of [one, other]) await each.getByRole('button', { name: 'Conversations' }).click();
  await one.getByLabel('Keep conversations in this browser').check();
  await other.getByLabel('Keep conversations in this browser').and(other.locator(':checked')).waitFor();
  for (const each of [one, other]) await each.getByRole('button', { name: 'Close' }).click();

  for (const [each, text] of [
    [one, 'Of one'],
    [other, 'Of the other'],
  ] as const) {
    page = each;
    answerInParts('Kept', '.');
    await ask(text);
    await answer().getByText('Kept.').waitFor();
  }
  await one.getByRole('button', { name: 'Conversations' }).click();
  await titles.nth(1).waitFor();
  assert.equal((await titles.allInnerTexts()).sort(), ['Of one', 'Of the other']);
  assert.is((await keptKeys(one)).length, 2);
  await one.getByRole('button', { name: 'Delete Of one' }).click();
  await one.getByRole('button', { name: 'Close' }).click();
  // What the other tab keeps next does not bring it back.
  answerInParts('Again', '.');
  await ask('More');
  await answer().getByText('Again.').waitFor();
  await one.reload();
  await one.getByText('Again.').waitFor();
  await one.getByRole('button', { name: 'Conversations' }).click();
  assert.equal(await titles.allInnerTexts(), ['Of the other']);

  await one.getByLabel('Keep conversations in this browser').uncheck();
  await other.getByRole('button', { name: 'Conversations' }).click();
  await other.getByText('They end with this page').waitFor();
  assert.equal(await keptKeys(other), []);
  assert.is(await other.locator('.history button.grow').count(), 1, 'it stays until the page is closed');
  await context.close();
});

suite.run();
