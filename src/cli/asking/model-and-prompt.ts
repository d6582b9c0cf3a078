/**
 * Splits the words after `svc run` into a model and a prompt: `svc run NAME prompt…`, or the prompt alone.
 *
 * The first word is a model only if it is one that is installed, in the catalogue, a `.gguf` file, or in the form of a
 * source (`hf:…`, `ollama:…`). A text of several words in quotes is one word with blanks, and never a model. A first
 * word that is almost such a name, or looks like `name:tag`, is refused: its words would go to another model.
 */
import { SvcError } from '../../protocol/errors.ts';
import { isInCatalogue, isSource } from './offer-pull.ts';

export interface ModelAndPrompt {
  /** undefined: the words name none. */
  readonly model: string | undefined;
  readonly prompt: string;
}

/** Only such a word can be the name of a model. */
const MAY_BE_NAME = /^[a-z0-9](?:[\w.:/@-]*[a-z0-9])?$/i;
/** As Ollama names models, with a tag that has a digit, or `latest`. */
const TAGGED = /^[a-z][\w./-]*:(?:latest|(?=[\w.-]*\d)[\w.-]+)$/i;

/**
 * @param words without those after `--`, which are never a model
 * @throws SvcError MODEL_NOT_FOUND for a first word that is almost a model's name
 */
export async function modelAndPrompt(words: readonly string[], literal: readonly string[]): Promise<ModelAndPrompt> {
  const [first = '', ...others] = words;
  const alone = { model: undefined, prompt: [...words, ...literal].join(' ') };
  const named = { model: first, prompt: [...others, ...literal].join(' ') };
  if (isSource(first) || (/\.gguf$/i.test(first) && !/\s/.test(first))) return named;
  if (!MAY_BE_NAME.test(first)) return alone;
  const known = await knownNames();
  if (known.some((name) => isNamedBy(first, name))) return named;
  if (await isInCatalogue(first)) return named;
  const { likelyName } = await import('../../models/pull/catalogue.ts');
  const likely = likelyName(first, known);
  if (likely !== undefined && /\d/.test(first)) throw notAModel(first, `did you mean ${likely}?`);
  if (TAGGED.test(first)) throw notAModel(first, `pull it: svc model pull ollama:${first}.`);
  return alone;
}

/** Names of the installed models; in lower case, as the catalogue's. */
async function knownNames(): Promise<string[]> {
  const { listModels } = await import('../machine/models.ts');
  return (await listModels()).flatMap(({ id, aliases }) => [id, ...aliases]).map((name) => name.toLowerCase());
}

/** The tag after the colon may be omitted. */
function isNamedBy(word: string, name: string): boolean {
  const typed = word.toLowerCase();
  return name === typed || name.startsWith(`${typed}:`);
}

function notAModel(word: string, hint: string): SvcError {
  return new SvcError('MODEL_NOT_FOUND', `there is no model ${JSON.stringify(word)}`, {
    hint: `${hint} If the word belongs to the prompt, put the prompt in quotes, or after --`,
    param: 'model',
  });
}
