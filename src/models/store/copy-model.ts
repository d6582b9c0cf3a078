/** A further entry for the files of a model: each of the two may be removed without the other. */
import { SvcError } from '../../protocol/errors.ts';
import { checkFree } from './lookup.ts';
import { RegistryFile } from './registry.ts';

/**
 * Adds an installed model once more, by another name. If the config gives that name, the caller replaces it there.
 *
 * @param dir directory of the store
 * @param id as in the registry
 * @throws SvcError MODEL_NOT_FOUND, CANNOT_WRITE; INVALID_REQUEST for a name that is taken
 */
export async function copyModel(dir: string, id: string, name: string): Promise<void> {
  await new RegistryFile(dir).update((registry) => {
    const entry = registry.models.find((each) => each.id === id);
    if (entry === undefined) throw new SvcError('MODEL_NOT_FOUND', `${id} was removed meanwhile`);
    checkFree(name, registry, []);
    registry.models.push({ ...entry, id: name, aliases: [] });
  });
}
