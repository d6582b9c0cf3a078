/**
 * The catalogue of models that work well with svc, by short name: `models/catalogue.json`, maintained by hand and
 * dated. It has no sizes: they are estimated from the parameters and the bits per weight, and the hub reports the real
 * size before the download.
 */
import * as v from 'valibot';
import { ownText } from '../../process/own-files.ts';
import { SvcError } from '../../protocol/errors.ts';
import { suggest } from '../../protocol/suggest.ts';

/** Bits per weight, including scales and the layers that keep a higher precision. */
const BITS = { MXFP4: 4.6, Q4_K_M: 4.9, Q5_K_M: 5.7, Q6_K: 6.6, Q8_0: 8.5, F16: 16 } as const;
const QuantizationSchema = v.picklist(Object.keys(BITS) as (keyof typeof BITS)[]);

const EntrySchema = v.pipe(
  v.strictObject({
    name: v.pipe(v.string(), v.regex(/^[a-z0-9][a-z0-9.-]*[a-z0-9]$/)),
    repo: v.pipe(v.string(), v.regex(/^[\w.-]+\/[\w.-]+$/)),
    parameters_billions: v.pipe(v.number(), v.minValue(0.3), v.maxValue(30)),
    quantizations: v.pipe(v.array(QuantizationSchema), v.minLength(1)),
    default_quantization: QuantizationSchema,
    context_length: v.pipe(v.number(), v.integer(), v.minValue(512)),
    license: v.pipe(v.string(), v.minLength(2)),
    good_at: v.pipe(v.string(), v.minLength(5), v.maxLength(100)),
  }),
  v.check(({ quantizations, default_quantization }) => quantizations.includes(default_quantization)),
);
export type CatalogueEntry = v.InferOutput<typeof EntrySchema>;

const CatalogueSchema = v.strictObject({
  date: v.pipe(v.string(), v.isoDate()),
  models: v.array(EntrySchema),
});
export type Catalogue = v.InferOutput<typeof CatalogueSchema>;

let read: Catalogue | undefined;

export function catalogue(): Catalogue {
  read ??= v.parse(CatalogueSchema, JSON.parse(ownText('models/catalogue.json')));
  return read;
}

export function findInCatalogue(name: string): CatalogueEntry | null {
  return catalogue().models.find((each) => each.name === name.toLowerCase()) ?? null;
}

/** Returns the entries that contain every word, in the name, the repository, the license or the purpose. */
export function searchCatalogue(words: string): CatalogueEntry[] {
  const wanted = words.toLowerCase().split(/\s+/);
  return catalogue().models.filter(({ name, repo, license, good_at }) => {
    const text = `${name} ${repo} ${license} ${good_at}`.toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
}

/** Estimated size of the model file in bytes. */
export function estimatedBytes({ parameters_billions }: CatalogueEntry, quantization: keyof typeof BITS): number {
  return (parameters_billions * 1e9 * BITS[quantization]) / 8;
}

/** Returns the name among `names`, or of the catalogue, that `typed` may mean; never one of another size. */
export function likelyName(typed: string, names: readonly string[] = []): string | undefined {
  const [name = '', tag] = typed.toLowerCase().split(':');
  // Ollama's registry has the size in the tag.
  const dashed = tag === undefined ? name : `${name}-${tag}`;
  const size = sizeIn(dashed);
  const known = [...names, ...catalogue().models.map((each) => each.name)].filter(
    (each) => size === undefined || sizeIn(each) === size,
  );
  return suggest(dashed, known) ?? suggest(name, known);
}

/** Such as `0.6b`. */
function sizeIn(name: string): string | undefined {
  return /\d{1,4}(?:\.\d{1,3})?b(?![a-z0-9])/i.exec(name)?.[0].toLowerCase();
}

/** `typed`: a name, perhaps with a tag. */
export function unknownShortName(typed: string): SvcError {
  const likely = likelyName(typed);
  const meant = likely === undefined ? [] : [likely];
  if (typed.includes(':')) meant.push(`ollama:${typed}`);
  return new SvcError('MODEL_NOT_FOUND', `the catalogue has no model ${JSON.stringify(typed)}`, {
    hint:
      meant.length === 0
        ? `see svc model search; or name its source: hf:owner/repo, or ollama:${typed} for Ollama's registry`
        : `did you mean ${meant.join(' or ')}?`,
    param: 'model',
  });
}
