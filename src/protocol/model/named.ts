/** Finds the model that a name means, as the store, the router and Ollama's API do. */

/** Id of the built-in model, in every version. */
export const BUILTIN_ID = 'builtin';

/** In requests, means the default model; no model has this name. */
export const DEFAULT_NAME = 'default';

export interface Named {
  readonly id: string;
  readonly aliases: readonly string[];
}

/**
 * Ignores case. `name` is an id, an alias, or the name that the model was pulled by; the tag after its colon may be
 * omitted if only one model matches, or one has the tag `latest`.
 */
export function findNamed<Model extends Named>(name: string, models: readonly Model[]): Model | undefined {
  const plain = withoutHub(name);
  const exact = models.find(({ id, aliases }) =>
    [id, ...aliases].some((each) => [name.toLowerCase(), plain].includes(each.toLowerCase())),
  );
  if (exact !== undefined) return exact;
  const tagged = taggedAs(name, models);
  return (
    tagged.find(({ id }) => id.toLowerCase() === `${plain}:latest`) ?? (tagged.length === 1 ? tagged[0] : undefined)
  );
}

/** The models of which `name` omits the tag. */
export function taggedAs<Model extends Named>(name: string, models: readonly Model[]): Model[] {
  const plain = withoutHub(name);
  return models.filter(({ id }) => id.toLowerCase().startsWith(`${plain}:`));
}

/** The name in lower case, without the hub that it was pulled from. */
function withoutHub(name: string): string {
  return name.toLowerCase().replace(/^(hf:|ollama:|hf\.co\/|huggingface\.co\/)/, '');
}
