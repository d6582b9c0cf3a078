/** llama.cpp's source, once, before several steps want it at the same time. */
import { existsSync } from 'node:fs';
import { inRoot } from './root.js';
import { say } from './run.js';
import { requireTools } from './tools.js';
import { llamaSource } from '../llama-source.js';

export async function unpackLlamaCpp() {
  if (!existsSync(inRoot('build', 'llama.cpp'))) {
    await requireTools();
    say('unpacking the source of llama.cpp');
  }
  await llamaSource();
}
