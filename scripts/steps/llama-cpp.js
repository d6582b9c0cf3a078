/** Unpacks the llama.cpp source once, before several steps need it concurrently. */
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
