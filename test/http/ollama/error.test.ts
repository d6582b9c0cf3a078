/** Errors that Ollama's clients recognise by their text, on which they ask again. */
import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/protocol/errors.ts';
import { inOllamasWords } from '../../../src/protocol/ollama/error.ts';

test("the engine's words for a model without tools or without reasoning become Ollama's", () => {
  const source = readFileSync(new URL('../../../native/engine/llama/chat/chat_renderer.cc', import.meta.url), 'utf8');
  const reasons = new Set(
    [...source.matchAll(/"(this model's chat template has no [^"]+)"/g)].map(([, text = '']) => text),
  );
  const told = [...reasons].map((reason) => {
    const error = inOllamasWords(new SvcError('INVALID_REQUEST', reason, { param: 'field' }), 'tiny:latest');
    return (error as SvcError).message.replace(`: ${reason}`, '');
  });
  assert.equal(told, ['"tiny:latest" does not support tools', '"tiny:latest" does not support thinking']);
});

test.run();
