/** Spellings of a picture's URL in OpenAI's formats. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/protocol/errors.ts';
import { parseChatCompletion } from '../../src/protocol/openai/chat-request.ts';

const parse = (image_url: unknown): unknown =>
  parseChatCompletion({ messages: [{ role: 'user', content: [{ type: 'image_url', image_url }] }] }).request.messages[0]
    ?.content;
const image = (media_type: string): unknown => [{ type: 'image', media_type, data: 'QUJD' }];

test('image/jpg is another name of image/jpeg', () => {
  for (const type of ['image/jpg', 'image/jpeg'])
    assert.equal(parse({ url: `data:${type};base64,QUJD` }), image('image/jpeg'));
});

test('parameters of a data URL change nothing', () => {
  assert.equal(parse({ url: 'data:image/png;charset=utf-8;base64,QUJD' }), image('image/png'));
  assert.equal(parse({ url: 'data:image/png;name=a.png;charset=utf-8;base64,QUJD' }), image('image/png'));
});

test('the URL may stand alone', () => {
  assert.equal(parse('data:image/png;base64,QUJD'), image('image/png'));
  assert.equal(parse('https://a.example/b.png'), [{ type: 'image_url', url: 'https://a.example/b.png' }]);
});

test('other URLs are refused', () => {
  const urls = [
    'data:image/png;charset=utf-8,QUJD',
    'data:image/png,QUJD',
    'data:image/tiff;base64,QUJD',
    'data:;base64,QUJD',
    'http://a.example/b.png',
    `data:image/png;${'a;'.repeat(100_000)}`,
    undefined,
    7,
  ];
  for (const url of [...urls, ...urls.map((each) => ({ url: each }))]) {
    try {
      parse(url);
      assert.unreachable(JSON.stringify(url));
    } catch (error) {
      assert.instance(error, SvcError);
      assert.is((error as SvcError).param, 'messages[0].content[0].image_url.url');
    }
  }
});

test.run();
