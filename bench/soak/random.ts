/** Random choices. */
import { randomInt } from 'node:crypto';

export const chance = (probability: number): boolean => Math.random() < probability;

export const pick = <Value>(values: readonly Value[]): Value => values[randomInt(values.length)] as Value;

/** Returns a random integer from `least` to `most`, log-uniformly distributed. */
export const magnitude = (least: number, most: number): number =>
  Math.floor(least * ((most + 1) / least) ** Math.random());

/** Returns a random choice, by weight. */
export function weighted<Value>(choices: readonly (readonly [weight: number, value: Value])[]): Value {
  let left = Math.random() * choices.reduce((sum, [weight]) => sum + weight, 0);
  for (const [weight, value] of choices) if ((left -= weight) < 0) return value;
  return choices[0]![1];
}
