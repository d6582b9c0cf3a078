/** Faults under a background response: whatever is killed, it goes on, and its events come without a gap or a repeat. */
import type OpenAI from 'openai';
import { openAiAt } from '../../support/openai.ts';
import { must, type Fault } from '../fault.ts';
import { LONG_TOKENS } from '../requests.ts';
import type { Scene } from '../scene.ts';
import { gone } from '../wait.ts';

type Event = OpenAI.Responses.ResponseStreamEvent;

/** The only token that this bias allows; the answer has as many as it may have. */
const LONG = { max_output_tokens: LONG_TOKENS, logit_bias: { '100': 100 } };

interface Begun {
  readonly id: string;
  readonly events: Event[];
}

const clientOf = ({ port }: Scene): OpenAI => openAiAt(`http://127.0.0.1:${String(port)}`);

/** Starts a background response and reads its first words. */
async function begin(scene: Scene): Promise<Begun> {
  const params = { model: 'tiny', input: 'Hello', background: true, stream: true, ...LONG } as const;
  const events: Event[] = [];
  for await (const event of await clientOf(scene).responses.create(params)) {
    events.push(event);
    if (event.type === 'response.output_text.delta') break;
  }
  const [created] = events;
  must(created?.type === 'response.created', `the first event is ${String(created?.type)}`);
  return { id: created.response.id, events };
}

/** Reads the rest; resolves with what all events together are. */
async function readOn(scene: Scene, { id, events }: Begun): Promise<string> {
  const query = { stream: true, starting_after: events.at(-1)!.sequence_number } as const;
  for await (const event of await clientOf(scene).responses.retrieve(id, query)) events.push(event);
  for (const [index, { sequence_number: number }] of events.entries()) {
    must(number === index, `event ${String(number)} came in place of ${String(index)}`);
  }
  const text = events.map((event) => (event.type === 'response.output_text.delta' ? event.delta : '')).join('');
  const last = events.at(-1);
  must(last?.type === 'response.incomplete', `the last event is ${String(last?.type)}`);
  const { output_text: stored, usage } = await clientOf(scene).responses.retrieve(id);
  must(stored === text, 'the stored text is not the one that was read');
  return `${String(usage?.output_tokens)} tokens, every event once`;
}

const SEES = new RegExp(`^${String(LONG_TOKENS)} tokens, every event once$`);

export const BACKGROUND: readonly Fault[] = [
  {
    name: 'engine killed under a background response',
    planted: '`kill -9` of its engine after the first words; then the events are read on',
    mended: 'by itself',
    withinSeconds: 8,
    daemon: 'lives',
    sees: SEES,
    async plant(scene) {
      const begun = await begin(scene);
      const { pid } = await scene.engine('tiny');
      await scene.timed(() => process.kill(pid, 'SIGKILL'), 'tiny');
      return await readOn(scene, begun);
    },
  },
  {
    name: 'daemon killed under a background response',
    planted: '`kill -9` of the daemon after the first words; then `svc start`, and the events are read on',
    mended: '`svc start`',
    withinSeconds: 8,
    daemon: 'ends',
    sees: SEES,
    async plant(scene) {
      const begun = await begin(scene);
      const pid = await scene.pid();
      process.kill(pid, 'SIGKILL');
      await gone(pid);
      await scene.timed(() => scene.start());
      return await readOn(scene, begun);
    },
  },
];
