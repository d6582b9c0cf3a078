import { setTimeout as sleep } from 'node:timers/promises';
import { conformance } from '../conformance.ts';
import { ask, chunk, cloud, openConnections, sayHello } from './cloud-support.ts';
import { startUpstream, type Turn } from './upstream.ts';

const owned = openConnections();

/** Sends a long answer as fast as it is read; its size exceeds every buffer on the way. */
async function endless(turn: Turn): Promise<void> {
  const piece = 'x'.repeat(8 * 1024);
  while (!turn.isOver) {
    await turn.event(chunk({ content: piece }));
    await sleep(1);
  }
}

conformance('cloud backend, chat completions', async () => {
  const upstream = await startUpstream(async (turn) => {
    if (turn.request.method === 'GET') return turn.json(200, { object: 'list', data: [{ id: 'small' }] });
    const { model, messages } = turn.request.body;
    if (model !== 'small') return turn.json(404, { error: { message: 'no such model', code: 'model_not_found' } });
    return messages[0].content === 'endless' ? endless(turn) : sayHello(turn);
  });
  return {
    backend: cloud(`${upstream.url}/v1`).backend,
    short: ask('short'),
    endless: ask('endless'),
    unknown: ask('short', { model: 'nothing-of-this-name' }),
    work: upstream.written,
    owned,
    dispose: upstream.close,
  };
});
