/** Web pages at a real daemon: the official clients as a browser runs them, and changes of the list while it runs. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI, { APIConnectionError } from 'openai';
import * as assert from 'uvu/assert';
import { addKey } from '../../src/home/key-file.ts';
import { ask } from '../http/ask.ts';
import { compiled } from '../support/compiled.ts';
import { daemonSuite, startIn } from '../support/daemon-suite.ts';
import { rejection } from '../support/errors.ts';
import { failureOf } from '../support/failure.ts';
import { configure } from '../support/home.ts';

const entry = compiled(fileURLToPath(new URL('scripted-daemon.ts', import.meta.url)));
const APP = 'https://app.example.com';

const test = daemonSuite('origins');

/** Header names that a page may send without asking. */
const SAFE = /^(accept|accept-language|content-language)$/;

/** A fetch under a browser's rules: a preflight first, and no answer unless CORS lets the page read it. */
function fetchOf(origin: string): typeof fetch {
  return async (input, init = {}) => {
    const headers = new Headers(init.headers);
    const asked = [...headers.keys()].filter((name) => !SAFE.test(name));
    const preflight = await fetch(input, {
      method: 'OPTIONS',
      headers: {
        origin,
        'access-control-request-method': init.method ?? 'GET',
        'access-control-request-headers': asked.join(','),
      },
    });
    const listOf = (name: string): string[] => (preflight.headers.get(name) ?? '').split(', ');
    if (!preflight.ok || preflight.headers.get('access-control-allow-origin') !== origin) throw new TypeError('CORS');
    assert.ok(listOf('access-control-allow-methods').includes(init.method ?? 'GET'));
    const missing = asked.filter((name) => !listOf('access-control-allow-headers').includes(name));
    assert.equal(missing, [], 'headers that the preflight does not allow');
    headers.set('origin', origin);
    const answer = await fetch(input, { ...init, headers });
    if (answer.headers.get('access-control-allow-origin') !== origin) throw new TypeError('CORS');
    return answer;
  };
}

test('the clients of OpenAI and Anthropic work in a page of a listed origin, with a key and streams', async (context) => {
  configure(context.home, { http: { origins: [APP] } });
  const daemon = await startIn(context, { entry, args: [] }).settled();
  const { key: apiKey } = await addKey(join(context.home.dir, 'data', 'keys.json'), 'page', 'inference');
  const url = `http://${String((await daemon.client.status()).http)}`;
  const browser = { apiKey, dangerouslyAllowBrowser: true, maxRetries: 0 };
  const messages = [{ role: 'user' as const, content: 'hi' }];

  const openai = new OpenAI({ ...browser, baseURL: `${url}/v1`, organization: 'o', fetch: fetchOf(APP) });
  assert.is((await openai.models.list()).data[0]?.id, 'tiny');
  let whole = '';
  for await (const chunk of await openai.chat.completions.create({ model: 'tiny', messages, stream: true }))
    whole += chunk.choices[0]?.delta.content ?? '';
  assert.is(whole, 'tick ');

  const anthropic = new Anthropic({ ...browser, baseURL: url, fetch: fetchOf(APP) });
  const answer = await anthropic.messages.stream({ model: 'tiny', max_tokens: 1, messages }).finalMessage();
  assert.equal(
    answer.content.map((block) => (block.type === 'text' ? block.text : block.type)),
    ['tick '],
  );

  const foreign = new OpenAI({ ...browser, baseURL: `${url}/v1`, fetch: fetchOf('https://evil.example') });
  assert.match(String((await failureOf(APIConnectionError, foreign.models.list())).cause), /CORS/);
});

test('a reload applies a changed list at once; a wrong one changes nothing', async (context) => {
  const daemon = await startIn(context, { entry, args: [] }).settled();
  const port = Number((await daemon.client.status()).http?.split(':')[1]);
  const post = async (origin: string): Promise<number> => {
    const body = { messages: [{ role: 'user', content: 'hi' }] };
    return (await ask({ port }, '/v1/chat/completions', { headers: { origin }, body })).status;
  };
  assert.is(await post(APP), 403);
  configure(context.home, { http: { origins: [APP, { origin: 'app://obsidian.md', scope: 'local' }] } });
  assert.equal(await daemon.client.reload(), { applied: ['http.origins'], restart_needed: [] });
  assert.equal([await post(APP), await post('app://obsidian.md')], [200, 200]);
  configure(context.home, { http: { origins: ['*'] } });
  await rejection(() => daemon.client.reload(), 'CONFIG_INVALID', /http\.origins\.0/);
  assert.is(await post(APP), 200);
  configure(context.home, { http: { origins: [] } });
  await daemon.client.reload();
  assert.is(await post(APP), 403);
});

test.run();
