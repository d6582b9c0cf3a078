/** If a model is not installed and its name says where to download it, offers to pull it (on a terminal). */
import { SvcError } from '../../protocol/errors.ts';
import { askYesNo } from '../terminal/output.ts';

/** Names that only a model on a hub or in a registry has. */
const ELSEWHERE = /^(hf:|hf\.co\/|huggingface\.co\/|ollama:)\S+$/i;

export interface PullOffer {
  /** True: pulls without asking. Absent: the command has no such flag. */
  readonly yes?: boolean;
  /** True: never asks. */
  readonly json: boolean;
}

/** True if `name` has the form of a source: `hf:owner/repo`, `ollama:name`. */
export function isSource(name: string): boolean {
  return ELSEWHERE.test(name);
}

/**
 * Runs `act`. If it fails because `model` is missing and the user agrees to pull it, pulls it and runs `act` again.
 * @throws SvcError what `act` threw; with the pull command as its hint if the model was not pulled
 */
export async function offeringPull<Result>(
  model: string | undefined,
  offer: PullOffer,
  act: () => Promise<Result>,
): Promise<Result> {
  try {
    return await act();
  } catch (error) {
    if (model === undefined || !(error instanceof SvcError) || error.code !== 'MODEL_NOT_FOUND') throw error;
    if (!isSource(model) && !(await isInCatalogue(model))) throw error;
    await pullIfAgreed(model, offer, error);
  }
  return await act();
}

/** As `offeringPull`, but only with the pull command as the hint of the error. */
export async function namingPull<Result>(model: string | undefined, act: () => Promise<Result>): Promise<Result> {
  return await offeringPull(model, { json: true }, act);
}

/** True if `model` is a name of the catalogue, perhaps with a quantization: `qwen3-4b:q8_0`. */
export async function isInCatalogue(model: string): Promise<boolean> {
  const { parseReference } = await import('../../models/pull/reference.ts');
  const { findInCatalogue } = await import('../../models/pull/catalogue.ts');
  try {
    const reference = parseReference(model, undefined);
    return reference.kind === 'short' && findInCatalogue(reference.name) !== null;
  } catch {
    // It has the form of no reference.
    return false;
  }
}

async function pullIfAgreed(model: string, { yes, json }: PullOffer, cause: SvcError): Promise<void> {
  const agreed = yes === true || (json ? undefined : await askYesNo(`${model} is not installed. Pull it?`));
  if (agreed !== true) {
    throw new SvcError(cause.code, cause.message, {
      hint: `pull it: svc model pull ${model}${yes === undefined ? '' : ', or answer with --yes in advance'}`,
      cause,
    });
  }
  const { pullModel } = await import('../machine/pull.ts');
  // Its progress goes to standard error: standard output is for the answer.
  await pullModel({ model, json: false });
}
