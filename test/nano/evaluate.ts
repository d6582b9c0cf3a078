/**
 * Scores the built-in model by rules. An answer is right if it equals an answer of the corpus for an accepted intent;
 * for a question outside the corpus, if the model says that it does not know.
 */
import { ask } from './ask.ts';
import { inventedIn } from './commands-named.ts';
import { readAnswers, readQuestions, UNKNOWN, type Question } from './questions.ts';

/** Shares of right answers that the shipped model must reach. */
export const BARS: Readonly<Partial<Record<Question['part'], number>>> = {
  svc: 0.85,
  outside: 0.9,
  limits: 0.9,
  facts: 1,
};
/** Largest share of questions about svc with a wrong answer other than "I don't know". */
export const CONFIDENTLY_WRONG_BAR = 0.03;

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
  const answers = await ask(model, questions);
  return questions.map((question, i) => {
    const answer = answers[i] ?? '';
    const right =
      question.answer === undefined
        ? question.intents.some((intent) => texts.get(intent)?.includes(answer))
        : answer === question.answer;
    return { question, answer, intent: intents.get(answer) ?? null, right, invented: inventedIn(answer) };
  });
}

export interface Tally {
  readonly right: number;
  /** Wrong answers other than "I don't know". */
  readonly confident: number;
  readonly all: number;
}

export function tally(scored: readonly Scored[], part: Question['part']): Tally {
  const own = scored.filter(({ question }) => question.part === part);
  const wrong = own.filter(({ right }) => !right);
  return {
    right: own.length - wrong.length,
    confident: wrong.filter(({ intent }) => intent !== UNKNOWN).length,
    all: own.length,
  };
}
