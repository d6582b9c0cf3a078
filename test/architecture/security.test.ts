/** docs/security.md agrees with the code. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import * as v from 'valibot';
import { ConfigSchema } from '../../src/config/config.ts';
import { MAX_KEYS } from '../../src/home/key-file.ts';
import type { RouteScope } from '../../src/daemon/http/authorize.ts';
import { LIMITS as GRPC } from '../../src/daemon/grpc/limits.ts';
import { VALUE_BYTES } from '../../src/daemon/grpc/requests.ts';
import { FREE_BYTES } from '../../src/daemon/http/body-budget.ts';
import { MAX_PIECES } from '../../src/daemon/http/body.ts';
import { MAX_DEPTH, MAX_VALUES, SCALAR_BYTES, STRUCTURE_BYTES } from '../../src/files/json-gauge.ts';
import { PUBLIC } from '../../src/daemon/http/routes.ts';
import { LIMITS as LISTENER } from '../../src/daemon/http/server.ts';
import { mostOfOneShare } from '../../src/net/shares.ts';
import { LIMITS } from '../../src/protocol/limits.ts';
import { read } from './source-files.ts';

/** Rows of the table whose first column is headed `heading`. */
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

test('the table of routes has the scopes of the code', () => {
  const words: Record<RouteScope, RegExp> = {
    none: /^nothing$/,
    probe: /^(nothing; without a key the reasons of conditions are withheld|the same)$/,
    local: /^a key of scope local$/,
    inference: /^a key of scope inference$/,
    admin: /^a key of scope admin(; to POST, also on loopback where there is no key)?$/,
    admin_key: /^a key of scope admin(,|; to POST,) also on loopback where there is no key$/,
  };
  const rows = tableOf('route').filter(([route]) => route !== 'everything else');
  assert.equal(rows.map(([route]) => route).sort(), [...new Set(PUBLIC.map(({ path }) => path))].sort());
  for (const { path, scope } of PUBLIC) {
    const [, asks = ''] = rows.find(([route]) => route === path) ?? [];
    assert.match(asks, words[scope], path);
  }
});

test('the table of limits has the values of the code', () => {
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
      ['a form', mebibytes(LIMITS.formBytes)],
      ['parts of a form', String(LIMITS.formParts)],
      ['headers of a part', `${String(LIMITS.formHeaderBytes / 1024)} KiB`],
      [
        `all bodies at once, and requests that are being answered: their text, ${String(STRUCTURE_BYTES)} for each list, object and key, and ${String(SCALAR_BYTES)} for each value`,
        mebibytes(LISTENER.bodiesBytes),
      ],
      [
        `those of one API key, or of one address without keys, the first ${String(FREE_BYTES / 1024)} KiB of each aside`,
        mebibytes(mostOfOneShare(LISTENER.bodiesBytes)),
      ],
      ['a request for a background response, without its input', mebibytes(LIMITS.repeatedBytes)],
      ['nesting of JSON', String(MAX_DEPTH)],
      ['values in a body, text aside', String(MAX_VALUES)],
      ['pieces in which a body comes', String(MAX_PIECES)],
      ['messages in a request', String(LIMITS.messages)],
      ['stop strings', String(LIMITS.stopStrings)],
      ['bytes of a stop string', String(LIMITS.stopStringBytes)],
      ['entries of logit_bias', String(LIMITS.logitBias)],
      ["inputs to embed, except in Ollama's API", String(LIMITS.embedInputs)],
      ['token ids to embed', String(LIMITS.embedTokens)],
      ['documents to rank', String(LIMITS.rerankDocuments)],
      ['a text to tokenize', mebibytes(LIMITS.tokenizeBytes)],
      ['the rendered text of a conversation to tokenize', mebibytes(LIMITS.renderedBytes)],
      ['token ids to detokenize, or of the prompts of a legacy completion', String(LIMITS.tokenIds)],
      ['prompts of a legacy completion, and answers to them', String(LIMITS.completions)],
      ['other files of a text with a gap', String(LIMITS.infillFiles)],
      ['connections', String(LISTENER.connections)],
      [
        'connections of one address (in IPv6: of all with the same first 64 bits)',
        String(mostOfOneShare(LISTENER.connections)),
      ],
      ['requests on one connection that wait for their answers', String(LISTENER.pipelined)],
      ['a client that does not read the next 64 KiB of its answer, whole or streamed', seconds(LISTENER.stallMs)],
      ['whole answers that wait to be read', mebibytes(LISTENER.answersBytes)],
      ['those of one address, before the last', mebibytes(mostOfOneShare(LISTENER.answersBytes))],
      ['requests that wait for an engine', String(config.engine.queue_limit)],
      ['API keys', String(MAX_KEYS)],
    ],
  );
});

test('the table of limits of the gRPC port has the values of the code', () => {
  const rows = new Map(tableOf('gRPC bound').map(([bound = '', value = '']) => [bound, value]));
  const seconds = (milliseconds: number): string => `${String(milliseconds / 1000)} s`;
  const expected: readonly [bound: string, value: string][] = [
    ['connections', String(GRPC.connections)],
    ['connections of one address', String(mostOfOneShare(GRPC.connections))],
    ['first bytes of a connection', seconds(GRPC.prefaceMs)],
    ['a connection without a call', seconds(GRPC.idleMs)],
    ['a connection that answers no ping', seconds(GRPC.pingMs)],
    ['calls of one connection at once', String(GRPC.streams)],
    ['a request', `${String(GRPC.messageBytes / 1024 / 1024)} MiB`],
    ['requests that are arriving at once, until the client has ended its side', String(GRPC.arriving)],
    [
      'requests of one API key, or of one address without keys, that are arriving at once',
      String(mostOfOneShare(GRPC.arriving)),
    ],
    ['until a request is complete', seconds(GRPC.requestMs)],
    [
      `memory of all requests, from their arrival until they are answered: their bytes, and ${String(VALUE_BYTES)} for each value`,
      `${String(GRPC.requestsBytes / 1024 / 1024)} MiB`,
    ],
    [
      `that of one API key, or of one address without keys, the first ${String(FREE_BYTES / 1024)} KiB of each aside`,
      `${String(mostOfOneShare(GRPC.requestsBytes) / 1024 / 1024)} MiB`,
    ],
    ['nesting of JSON in a request', String(MAX_DEPTH)],
    ['values in a request, and in its JSON', String(MAX_VALUES)],
    ['messages in a request', String(LIMITS.messages)],
    ['a client that does not read its answer', seconds(GRPC.stallMs)],
    ['answers that wait to be read', `${String(GRPC.answersBytes / 1024 / 1024)} MiB`],
    ['those of one address, before the last', `${String(mostOfOneShare(GRPC.answersBytes) / 1024 / 1024)} MiB`],
  ];
  for (const [bound, value] of expected) assert.is(rows.get(bound), value, bound);
  assert.is(rows.size, expected.length + 1);
});

test.run();
