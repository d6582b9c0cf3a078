/** Errors of an answer with the names of Anthropic's fields. */
import { inTheirNames, type Places } from '../../../protocol/anthropic/names.ts';

export async function* withTheirNames<Event>(events: AsyncIterable<Event>, places: Places): AsyncIterable<Event> {
  try {
    yield* events;
  } catch (error) {
    throw inTheirNames(error, places);
  }
}
