/** Runs conversations with a model in our engine, as many at once as it computes. */
import { loadAddon } from '../../src/engine/loader.ts';
import { OurEngine } from '../../bench/compare/our-engine.ts';

const OPTIONS = { context_length: 16_384, max_sequences: 16 };
const MOST_TOKENS = 120;

export interface Conversation {
  readonly system?: string;
  readonly turns: readonly string[];
}

/** Returns the last answer of each conversation, given the user turns, with default sampling. */
export async function ask(model: string, conversations: readonly Conversation[]): Promise<string[]> {
  const { addon, directory } = loadAddon();
  addon.loadBackends(directory);
  const engine = await OurEngine.load(addon, model, OPTIONS);
  try {
    const one = async ({ system, turns }: Conversation): Promise<string> => {
      const messages: { role: string; content: string }[] = [];
      if (system !== undefined) messages.push({ role: 'system', content: system });
      let answer = '';
      for (const content of turns) {
        messages.push({ role: 'user', content });
        ({ text: answer } = await engine.ask({ messages }, {}, MOST_TOKENS));
        messages.push({ role: 'assistant', content: answer });
      }
      return answer;
    };
    const answers: string[] = [];
    const left = conversations.entries();
    const ask = async (): Promise<void> => {
      for (const [number, conversation] of left) answers[number] = await one(conversation);
    };
    await Promise.all(Array.from({ length: OPTIONS.max_sequences }, ask));
    return answers;
  } finally {
    await engine.close();
  }
}
