/** Runs the cases of one target in batches and checks the daemon after each batch. */
import { Random } from '../random.ts';
import type { Door, Player } from './doors.ts';
import { FuzzedDaemon } from './fuzzed-daemon.ts';

const BATCH = 5_000;
const LANES = 48;
const TOLD_EVERY_MS = 30_000;
/** A run stops after this number of findings. */
const MOST_FINDINGS = 20;

export interface Finding {
  /** Number of the case, or of the first case of the batch. */
  readonly index: number;
  readonly what: string;
}

/** Runs cases `from` to `to` - 1. Prints progress; returns the findings. */
export async function fuzzDoor(door: Door, seed: number, from: number, to: number): Promise<Finding[]> {
  const cases = `cases ${String(from)} to ${String(to - 1)}`;
  console.log(`${door.name}: seed ${String(seed)}, ${cases}, Node ${process.version}`);
  const startedAt = performance.now();
  let toldAt = startedAt;
  const daemon = await FuzzedDaemon.start(door.isShipped);
  const findings: Finding[] = [];
  const tell = (done: number): void => {
    toldAt = performance.now();
    const seconds = (toldAt - startedAt) / 1000;
    const rate = Math.round((done - from) / seconds);
    console.log(
      `${door.name}: ${String(done - from)} cases in ${seconds.toFixed(0)} s (${String(rate)} a second), memory ${daemon.memory}, ${String(findings.length)} findings`,
    );
  };
  try {
    const player = await door.open(daemon);
    let done = from;
    while (done < to && findings.length === 0) {
      const end = Math.min(done + BATCH, to);
      findings.push(...(await playAll(player, seed, done, end)));
      for (const what of await daemon.check()) findings.push({ index: done, what });
      done = end;
      if (performance.now() - toldAt > TOLD_EVERY_MS) tell(done);
    }
    player.close();
    if (findings.length === 0) {
      for (const what of await daemon.checkLeft()) findings.push({ index: from, what });
    }
    tell(done);
  } finally {
    await daemon.stop();
  }
  for (const { index, what } of findings.slice(0, MOST_FINDINGS)) {
    console.log(`${door.name}: seed ${String(seed)}, case or batch ${String(index)}: ${what}`);
  }
  return findings;
}

async function playAll(player: Player, seed: number, from: number, to: number): Promise<Finding[]> {
  const findings: Finding[] = [];
  let next = from;
  const lane = async (): Promise<void> => {
    while (next < to && findings.length < MOST_FINDINGS) {
      const index = next;
      next += 1;
      const what = await player.play(new Random(seed, index));
      if (what !== null) findings.push({ index, what });
    }
  };
  await Promise.all(Array.from({ length: Math.min(LANES, to - from) }, lane));
  return findings;
}
