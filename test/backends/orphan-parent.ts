/** A process that owns a busy engine, prints the engine's pid and waits to be killed. */
import { collect, context } from './conformance.ts';
import { ask } from './local-support.ts';
import { makeRealLocal } from './real-local.ts';

const { backend } = makeRealLocal();
const events = backend.generate(ask('Hello', 'llama'), context())[Symbol.asyncIterator]();
await events.next();
process.stdout.write(`${String(backend.pids()[0])}\n`);
await collect({ [Symbol.asyncIterator]: () => events });
