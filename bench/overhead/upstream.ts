/**
 * A provider that answers at once with the number of chunks given in the prompt. Prints its URL first, and for each
 * client that disconnects early the time (milliseconds since 1970). Runs until it is killed.
 */
import { chunk, USAGE } from '../../test/backends/cloud/cloud-support.ts';
import { startUpstream } from '../../test/backends/cloud/upstream.ts';

const PIECE = `data: ${JSON.stringify(chunk({ content: ' word' }))}\n\n`;

const upstream = await startUpstream(async (turn) => {
  const chunks = Number(turn.request.body.messages.at(-1).content);
  const left = turn.over().then(() => performance.timeOrigin + performance.now());
  for (let sent = 0; sent < chunks && !turn.isOver; sent++) await turn.write(PIECE);
  if (turn.isOver) {
    console.log(await left);
    return;
  }
  await turn.event(chunk({}, 'stop', { usage: USAGE }));
  await turn.event('[DONE]');
  turn.end();
});
console.log(upstream.url);
