/** Manifests of Ollama's registry, which its store on disk has, too: the layers of a model, by digest. */
import * as v from 'valibot';
import { MOST_FILE_BYTES } from './source.ts';

export const LAYER = 'application/vnd.ollama.image.';
export const MANIFEST_BYTES: number = 1024 * 1024;

const LayerSchema = v.object({
  mediaType: v.string(),
  digest: v.pipe(v.string(), v.regex(/^sha256:[0-9a-f]{64}$/)),
  size: v.pipe(v.number(), v.safeInteger(), v.minValue(0), v.maxValue(MOST_FILE_BYTES)),
});
export type Layer = v.InferOutput<typeof LayerSchema>;
export const ManifestSchema = v.object({ layers: v.pipe(v.array(LayerSchema), v.minLength(1), v.maxLength(256)) });
