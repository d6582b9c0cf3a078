/** Converts the errors of an answer, for an API whose fields and words are not ours. */
export async function* withErrors<Event>(
  events: AsyncIterable<Event>,
  convert: (error: unknown) => unknown,
): AsyncGenerator<Event, void, undefined> {
  try {
    yield* events;
  } catch (error) {
    throw convert(error);
  }
}
