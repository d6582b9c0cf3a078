/** If a model is not installed and its name says where to download it, offers to pull it (on a terminal). */
import { SvcError } from '../../protocol/errors.ts';
import { askYesNo } from '../terminal/output.ts';

/** Names that only a model on a hub or in a registry has. */
const ELSEWHERE = /^(hf:|hf\.co\/|huggingface\.co\/|ollama:)/i;

/**
 * Runs `act`. If it fails because `model` is missing and the user agrees to pull it, pulls it and runs `act` again.
 * @throws SvcError what `act` threw; with the pull command as its hint if the model was not pulled
 */
export async function offeringPull<Result>(
  model: string | undefined,
  json: boolean,
  act: () => Promise<Result>,
): Promise<Result> {
  try {
    return await act();
  } catch (error) {
    if (model === undefined || !(error instanceof SvcError) || error.code !== 'MODEL_NOT_FOUND') throw error;
    if (!ELSEWHERE.test(model)) throw error;
    const agreed = json ? undefined : await askYesNo(`${model} is not installed. Pull it?`);
    if (agreed !== true) {
      throw new SvcError(error.code, error.message, { hint: `pull it: svc model pull ${model}`, cause: error });
    }
  }
  const { pullModel } = await import('../machine/pull.ts');
  await pullModel({ model, json });
  return await act();
}
