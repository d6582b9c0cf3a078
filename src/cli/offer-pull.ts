/** For a model that is not here and whose name says where it could come from: on a terminal, the offer to fetch it. */
import { SvcError } from '../protocol/errors.ts';
import { askYesNo } from './output.ts';

/** What only a model elsewhere is called. */
const ELSEWHERE = /^(hf:|hf\.co\/|huggingface\.co\/|ollama:)/i;

/**
 * Runs `act`, and once more when it failed for want of `model` and the person had it fetched.
 * @throws SvcError what `act` threw; with the command that fetches the model where nobody said yes
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
    const agreed = json ? undefined : await askYesNo(`${model} is not here. Pull it?`);
    if (agreed !== true) {
      throw new SvcError(error.code, error.message, { hint: `fetch it: svc model pull ${model}`, cause: error });
    }
  }
  const { pullModel } = await import('./pull.ts');
  await pullModel({ model, json });
  return await act();
}
