/** Prompts of random words, so that prefix caches hit only where a scenario intends it. */
import { randomInt } from 'node:crypto';

/** Each word, with a leading space, is one token in the measured vocabularies. */
const WORDS =
  'time year people way day man thing woman life child world school state family student group country problem hand part place case week company system program question work government number night point home water room mother area money story fact month lot right study book eye job word business issue side kind head house service friend father power hour game line end member law car city community name president team minute idea body information back parent face others level office door health person art war history party result change morning reason research girl guy moment air teacher force education'.split(
    ' ',
  );

export function words(count: number): string {
  return Array.from({ length: count }, () => WORDS[randomInt(WORDS.length)] as string).join(' ');
}
