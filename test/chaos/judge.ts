/** Injects one fault and checks its declared expectations. */
import { waitFor } from './wait.ts';
import { must, type Fault } from './fault.ts';
import type { Requests } from './requests.ts';
import { Scene } from './scene.ts';

export interface Row {
  readonly fault: Fault;
  /** skipped: the fault could not be injected here, for the reason in `problems`. */
  readonly verdict: 'passed' | 'failed' | 'skipped';
  readonly problems: readonly string[];
  readonly saw: string;
  /** Recovery time; null if it was not measured. */
  readonly recoverySeconds: number | null;
  readonly requests: Pick<Requests, 'sent' | 'answered' | 'failed' | 'lost'>;
}

const NONE = { sent: 0, answered: 0, failed: new Map<string, number>(), lost: [] };

/** Runs a fault. Never rejects. While the scene is in `open`, it must be closed if the program ends. */
export async function judge(fault: Fault, open: Set<Scene>): Promise<Row> {
  const impossible = fault.impossible?.();
  if (impossible !== undefined) {
    return { fault, verdict: 'skipped', problems: [impossible], saw: '', recoverySeconds: null, requests: NONE };
  }
  const scene = await Scene.make(fault);
  open.add(scene);
  const problems: string[] = [];
  let saw = '';
  let recoverySeconds: number | null = null;
  try {
    await scene.begin();
    const before = fault.daemon === 'absent' ? null : await scene.pid();
    saw = tidy(await fault.plant(scene), scene);
    recoverySeconds = await scene.recovered();
    await scene.calm();
    must(fault.sees.test(saw), `the user saw something else than ${String(fault.sees)}: ${saw}`);
    await waitFor('the daemon to be READY', async () => {
      const { state, conditions } = await scene.client.ready();
      const troubles = conditions.filter(({ status }) => status !== 'ok');
      must(state === 'READY', troubles.map(({ name, reason }) => `${name}: ${reason}`).join('; '));
      return true;
    });
    const after = await scene.pid();
    must(fault.daemon !== 'lives' || after === before, 'the daemon is another');
    must(fault.daemon !== 'ends' || after !== before, 'the daemon is the same');
    judgeRequests(fault, scene.requests);
  } catch (error) {
    problems.push(tidy(messageOf(error), scene));
  }
  problems.push(...(await scene.close()).map((left) => tidy(left, scene)));
  open.delete(scene);
  const verdict = problems.length === 0 ? 'passed' : 'failed';
  return { fault, verdict, problems, saw, recoverySeconds, requests: scene.requests };
}

function judgeRequests({ mayFail = [], mayLose = 0 }: Fault, { failed, lost }: Requests): void {
  for (const [code, count] of failed) must(mayFail.includes(code), `${count} requests ended with ${code}`);
  must(lost.length <= mayLose, `${lost.length} requests were lost: ${lost.join(', ')}`);
}

/** Removes text that differs between runs, such as paths and ports. */
function tidy(text: string, { home, port }: Scene): string {
  return text
    .trim()
    .replaceAll(home.dir, '$SVC_HOME')
    .replaceAll(String(port), 'PORT')
    .replace(/127\.0\.0\.1:\d+/g, '127.0.0.1:PORT')
    .replace(/\bpid \d+/g, 'pid N')
    .replaceAll('\n', ' ');
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message}: ${messageOf(error.cause)}`;
}
