/** Target of an HTTP redirect. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { redirectOf } from '../../src/net/redirect.ts';

const test = suite('redirect');

const FROM = new URL('https://here.example/v1/models?page=2');
const to = (status: number, location?: string): string | undefined =>
  redirectOf({ status, header: (name) => (name === 'location' ? location : undefined) }, FROM, () => new Error('no'))
    ?.href;

test('the target may be absolute, or relative to the requested URL', () => {
  for (const status of [301, 302, 303, 307, 308]) assert.is(to(status, '/v2'), 'https://here.example/v2');
  assert.is(to(302, 'next'), 'https://here.example/v1/next');
  assert.is(to(302, 'http://there.example:8080/x?y#z'), 'http://there.example:8080/x?y#z');
});

test('an answer with another status, or without Location, is not a redirect', () => {
  for (const status of [200, 201, 300, 304, 404]) assert.is(to(status, '/v2'), undefined);
  assert.is(to(302), undefined);
});

test('a target that is not HTTP, or has credentials, is refused', () => {
  for (const location of [
    'http://',
    'https://[',
    'file:///etc/passwd',
    'javascript:alert(1)',
    'https://name@there.example/',
    'https://name:word@there.example/',
  ]) {
    assert.throws(() => to(302, location), /^no$/, location);
  }
});

test.run();
