/** Holds conversations with a model in our engine, as many at once as it takes. */
import { loadAddon } from '../../src/engine/loader.ts';
import type { NativeEngine, NativeOutput } from '../../src/engine/addon.ts';

const CONTEXT_LENGTH = 16_384;
const MOST_TOKENS = 120;

/** The last answer of each conversation, given the user's turns. Nothing about sampling is asked for. */
export async function ask(model: string, conversations: readonly (readonly string[])[]): Promise<string[]> {
  const { addon, directory } = loadAddon();
  addon.loadBackends(directory);
  const open = new Map<number, { text: string; resolve: (text: string) => void; reject: (error: Error) => void }>();
  const onStep = (outputs: NativeOutput[]): void => {
    for (const { id, text, finish, error } of outputs) {
      const generation = open.get(id);
      if (generation === undefined) continue;
      generation.text += text;
      if (error !== undefined) generation.reject(new Error(`${error.code}: ${error.message}`));
      if (finish !== undefined) generation.resolve(generation.text);
    }
  };
  const options = { contextLength: CONTEXT_LENGTH, maxSequences: 16 };
  const engine: NativeEngine = await addon.load(model, options, () => undefined, onStep).done;
  let next = 1;
  const reply = async (messages: readonly { role: string; content: string }[]): Promise<string> => {
    const id = next++;
    const answered = new Promise<string>((resolve, reject) => open.set(id, { text: '', resolve, reject }));
    await engine.submit({ id, messages, maxTokens: MOST_TOKENS });
    return await answered;
  };
  try {
    return await Promise.all(
      conversations.map(async (turns) => {
        const messages: { role: string; content: string }[] = [];
        let answer = '';
        for (const content of turns) {
          messages.push({ role: 'user', content });
          answer = await reply(messages);
          messages.push({ role: 'assistant', content: answer });
        }
        return answer;
      }),
    );
  } finally {
    await engine.close();
  }
}
