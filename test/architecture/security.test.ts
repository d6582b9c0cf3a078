/** docs/security.md says what the code does. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import * as v from 'valibot';
import { ConfigSchema } from '../../src/config/config.ts';
import { MAX_KEYS } from '../../src/config/key-file.ts';
import type { RouteScope } from '../../src/daemon/http/authorize.ts';
import { MAX_PIECES } from '../../src/daemon/http/body.ts';
import { MAX_DEPTH, MAX_VALUES } from '../../src/daemon/http/json-gauge.ts';
import { PUBLIC } from '../../src/daemon/http/routes.ts';
import { LIMITS as LISTENER } from '../../src/daemon/http/server.ts';
import { LIMITS } from '../../src/protocol/limits.ts';
import { read } from './source-files.ts';

/** The rows of the table whose first heading is `heading`. */
function tableOf(heading: string): string[][] {
  const lines = read('docs/security.md').split('\n');
  const from = lines.findIndex((line) => line.startsWith(`| ${heading} |`)) + 2;
  const to = lines.findIndex((line, index) => index >= from && !line.startsWith('|'));
  return lines.slice(from, to).map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.replaceAll('`', '').trim()),
  );
}

test('the table of routes is the table of scopes', () => {
  const words: Record<RouteScope, RegExp> = {
    none: /^nothing$/,
    probe: /^(nothing; without a key the reasons of conditions are withheld|the same)$/,
    local: /^a key of scope local$/,
    inference: /^a key of scope inference$/,
    admin: /^a key of scope admin$/,
    admin_key: /^a key of scope admin, also on loopback where there is no key$/,
  };
  const rows = tableOf('route').filter(([route]) => route !== 'everything else');
  assert.equal(rows.map(([route]) => route).sort(), PUBLIC.map(({ path }) => path).sort());
  for (const { path, scope } of PUBLIC) {
    const [, asks = ''] = rows.find(([route]) => route === path) ?? [];
    assert.match(asks, words[scope], path);
  }
});

test('the table of bounds has those of the code', () => {
  const seconds = (milliseconds: number): string => `${String(milliseconds / 1000)} s`;
  const mebibytes = (bytes: number): string => `${String(bytes / 1024 / 1024)} MiB`;
  const config = v.parse(ConfigSchema, {});
  assert.equal(
    tableOf('bound').map(([bound, value]) => [bound, value]),
    [
      ['headers of a request', `${String(LISTENER.headerBytes / 1024)} KiB`],
      ['until the headers are complete, and of a new connection that stays silent', seconds(LISTENER.headersMs)],
      ['until the body is complete', seconds(LISTENER.requestMs)],
      ['an idle connection after an answer', seconds(LISTENER.keepAliveMs)],
      ['a body', mebibytes(LIMITS.bodyBytes)],
      ['all bodies at once', mebibytes(LISTENER.bodiesBytes)],
      ['nesting of JSON', String(MAX_DEPTH)],
      ['values in a body, text aside', String(MAX_VALUES)],
      ['pieces in which a body comes', String(MAX_PIECES)],
      ['messages in a request', String(LIMITS.messages)],
      ['stop strings', String(LIMITS.stopStrings)],
      ['bytes of a stop string', String(LIMITS.stopStringBytes)],
      ['entries of logit_bias', String(LIMITS.logitBias)],
      ['inputs to embed', String(LIMITS.embedInputs)],
      ['token ids to embed', String(LIMITS.embedTokens)],
      ['connections', String(LISTENER.connections)],
      ['requests on one connection that wait for their answers', String(LISTENER.pipelined)],
      ['a client that does not read its answer', seconds(LISTENER.stallMs)],
      ['requests that wait for an engine', String(config.engine.queue_limit)],
      ['API keys', String(MAX_KEYS)],
    ],
  );
});

test.run();
