import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { isOrigin, scopeOfOrigin } from '../../src/protocol/origins.ts';

test('an origin is exact, and written as browsers write it', () => {
  const exact = [
    'https://app.example.com',
    'http://localhost:3000',
    'http://127.0.0.1:8080',
    'http://[::1]:3000',
    'chrome-extension://abcdefghijklmnopabcdefghijklmnop',
    'moz-extension://2c127fa4-62c7-7e4f-90e5-472b45eecfdc',
    'app://obsidian.md',
    'tauri://localhost',
    'vscode-webview://1a2b3c',
  ];
  for (const origin of exact) assert.is(isOrigin(origin), true, origin);
  const inexact = [
    '',
    '*',
    'null',
    'file://',
    'file://x',
    'app.example.com',
    'https://',
    'https://*.example.com',
    'https://app.example.com/',
    'https://app.example.com/path',
    'https://App.example.com',
    'https://app.example.com:443',
    'http://app.example.com:80',
    'http://app.example.com:99999',
    'https://user@app.example.com',
    'https://a.example,https://b.example',
    'https://a.example\n',
    'https://b\u00fccher.example',
    'http://127.1',
  ];
  for (const origin of inexact) assert.is(isOrigin(origin), false, origin);
});

test('an origin without a scope has inference, and one that is not listed has none', () => {
  const entries = ['app://a', { origin: 'app://b' }, { origin: 'app://c', scope: 'local' as const }];
  assert.equal(
    ['app://a', 'app://b', 'app://c', 'app://d', ''].map((origin) => scopeOfOrigin(entries, origin)),
    ['inference', 'inference', 'local', undefined, undefined],
  );
});

test.run();
