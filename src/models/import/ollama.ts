/**
 * Ollama's store: `<folder>/manifests/HOST/NAMESPACE/NAME/TAG` lists the layers of a model, `<folder>/blobs/sha256-…`
 * has them. The model, projector and adapter layers are GGUF files; the system and params layers become settings.
 */
import { createHash } from 'node:crypto';
import { join, relative, sep } from 'node:path';
import * as v from 'valibot';
import { SvcError } from '../../protocol/errors.ts';
import { parsedJson } from '../../protocol/foreign-text.ts';
import { isModelName, type ModelSettings } from '../../protocol/model/settings.ts';
import { readGgufHeader } from '../gguf/gguf.ts';
import { withParameters } from '../modelfile/parameters.ts';
import { LAYER, MANIFEST_BYTES, ManifestSchema, type Layer } from '../pull/ollama-manifest.ts';
import type { FoundModel, Scan } from './found.ts';
import { filesBelow, MOST_ENTRIES, readSmall, realInside, sizeInside, Unusable } from './inside.ts';
import { reasonOf } from './repository.ts';

const TEXT_BYTES = 512 * 1024;
const ParamsSchema = v.record(v.string(), v.union([v.string(), v.number(), v.boolean(), v.array(v.string())]));
const NOT_TAKEN: Readonly<Record<string, string>> = {
  template: 'the template layer is not used: svc uses the chat template of the model file',
  messages: 'the example messages are not used: send them with the request',
};

/** @param root without links */
export async function scanOllama(root: string): Promise<Scan> {
  const manifests = join(root, 'manifests');
  const { files, refused } = await filesBelow(manifests, /^[^.]/, 4, { left: MOST_ENTRIES });
  const scan: Scan = { models: [], refused };
  for (const file of files) {
    try {
      scan.models.push(await modelOf(file, root));
    } catch (error) {
      scan.refused.push({ path: file, reason: reasonOf(error, file) });
    }
  }
  // Of several names for one file, the one with the fewest settings is the model; the others are names made from it.
  const weight = ({ settings, adapters }: FoundModel): number => Object.keys(settings).length + adapters.length;
  scan.models.sort((a, b) => weight(a) - weight(b));
  return scan;
}

async function modelOf(file: string, root: string): Promise<FoundModel> {
  const id = nameOf(relative(join(root, 'manifests'), file).split(sep));
  const manifest = await readSmall(await realInside(file, root), MANIFEST_BYTES);
  const read = v.safeParse(ManifestSchema, parsedJson(manifest));
  if (!read.success) throw new Unusable('is not a valid manifest');
  const { layers } = read.output;
  const ofType = (type: string): Layer[] => layers.filter(({ mediaType }) => mediaType === LAYER + type);
  const [model, ...others] = ofType('model');
  if (model === undefined || others.length > 0) {
    throw new Unusable('has no model that svc can run: it is not one GGUF file');
  }
  const path = await blobOf(model, root);
  await readGgufHeader(path);
  const notes = Object.entries(NOT_TAKEN).flatMap(([type, why]) => (ofType(type).length > 0 ? [why] : []));
  const optional = async <Result>(layer: Layer, use: (path: string) => Promise<Result>): Promise<Result | null> => {
    try {
      return await use(await blobOf(layer, root));
    } catch (error) {
      const type = layer.mediaType.slice(LAYER.length);
      notes.push(`the ${type} layer is not used: ${layer.digest.slice(0, 19)} ${reasonOf(error, path)}`);
      return null;
    }
  };
  const [projectorLayer] = ofType('projector');
  const projector = projectorLayer === undefined ? null : await optional(projectorLayer, checkedGguf);
  const adapters: string[] = [];
  for (const layer of ofType('adapter')) {
    const adapter = await optional(layer, checkedGguf);
    if (adapter !== null) adapters.push(adapter);
  }
  let settings: ModelSettings = {};
  for (const layer of ofType('system')) {
    const system = await optional(layer, (blob) => textOf(blob, layer));
    if (system !== null && system.trim() !== '') settings = { ...settings, system };
  }
  for (const layer of ofType('params')) {
    const text = await optional(layer, (blob) => textOf(blob, layer));
    if (text !== null) settings = withParams(settings, text, notes);
  }
  return { id, source: `ollama:${id}`, path, projector, adapters, settings, notes, root };
}

/** `name:tag`, with the namespace and the registry unless they are Ollama's own. */
function nameOf(words: readonly string[]): string {
  const [host, namespace, name, tag, ...more] = words;
  if (tag === undefined || more.length > 0) throw new Unusable('is not at HOST/NAMESPACE/NAME/TAG');
  const isOwn = host === 'registry.ollama.ai';
  const above = [...(isOwn ? [] : [host]), ...(isOwn && namespace === 'library' ? [] : [namespace])];
  const id = `${[...above, name].join('/')}:${tag}`;
  if (!isModelName(id)) throw new Unusable('cannot be the name of a model');
  return id;
}

/** @throws Unusable if the blob is missing, of another size, not a regular file, or outside of the store */
async function blobOf({ digest, size }: Layer, root: string): Promise<string> {
  const path = join(root, 'blobs', digest.replace(':', '-'));
  let found: number;
  try {
    found = await sizeInside(path, root);
  } catch (error) {
    throw error instanceof Unusable ? new Unusable(`has a blob that cannot be used: ${path} ${error.message}`) : error;
  }
  if (found !== size) throw new Unusable(`has a blob of another size: ${path} has ${found} bytes, not ${size}`);
  return path;
}

async function checkedGguf(path: string): Promise<string> {
  await readGgufHeader(path);
  return path;
}

async function textOf(path: string, { digest }: Layer): Promise<string> {
  const text = await readSmall(path, TEXT_BYTES);
  if (`sha256:${createHash('sha256').update(text).digest('hex')}` === digest) return text;
  throw new Unusable('does not match its name (SHA-256 mismatch)');
}

/** Each parameter by itself, so that one that svc does not have leaves the others. */
function withParams(settings: ModelSettings, text: string, notes: string[]): ModelSettings {
  const params = v.safeParse(ParamsSchema, parsedJson(text));
  if (!params.success) {
    notes.push('the params layer is not used: it is not valid');
    return settings;
  }
  let made = settings;
  for (const [name, value] of Object.entries(params.output)) {
    try {
      const { settings: next, skipped } = withParameters(made, { [name]: value });
      made = next;
      notes.push(...skipped.map((each) => `parameter ${each}`));
    } catch (error) {
      if (!(error instanceof SvcError)) throw error;
      notes.push(`parameter ${error.message.replace('parameters.', '')}`);
    }
  }
  return made;
}
