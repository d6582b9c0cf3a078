/**
 * Scores the built-in model by rules. An answer is right if it equals an answer of the corpus for an accepted intent;
 * for a question outside the corpus, if the model says that it does not know.
 */
import { ask } from './ask.ts';
import { inventedIn } from './commands-named.ts';
import { readAnswers, readQuestions, type Question } from './questions.ts';

/** Shares of right answers that the shipped model must reach. */
export const BARS: Readonly<Partial<Record<Question['part'], number>>> = { svc: 0.85, outside: 0.8 };

export interface Scored {
  readonly question: Question;
  readonly answer: string;
  /** Intent that has this answer; null if none has, so the model composed its own. */
  readonly intent: string | null;
  readonly right: boolean;
  readonly invented: readonly string[];
}

export async function evaluate(model: string, folder: 'evaluation' | 'development'): Promise<Scored[]> {
  const intents = new Map<string, string>();
  const texts = readAnswers();
  for (const [intent, answers] of texts) for (const answer of answers) intents.set(answer, intent);
  const questions = readQuestions(folder);
  const answers = await ask(
    model,
    questions.map(({ turns }) => turns),
  );
  return questions.map((question, i) => {
    const answer = answers[i] ?? '';
    const right =
      question.answer === undefined
        ? question.intents.some((intent) => texts.get(intent)?.includes(answer))
        : answer === question.answer;
    return { question, answer, intent: intents.get(answer) ?? null, right, invented: inventedIn(answer) };
  });
}

/** Number of right answers and of all questions of a part. */
export function tally(scored: readonly Scored[], part: Question['part']): { right: number; all: number } {
  const own = scored.filter(({ question }) => question.part === part);
  return { right: own.filter(({ right }) => right).length, all: own.length };
}
