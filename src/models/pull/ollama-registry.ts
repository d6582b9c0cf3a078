/**
 * Client of Ollama's registry and compatible ones: a manifest lists layers by digest.
 *
 *   GET /v2/NAMESPACE/NAME/manifests/TAG      the layers: model, projector, template, params, license, …
 *   GET /v2/NAMESPACE/NAME/blobs/sha256:…     a layer; redirects to its bytes
 *
 * The model and projector layers are downloaded, and the license is read. Layers with Ollama's own template and
 * parameters are not used: a GGUF contains the template that the model was trained with. Manifests are untrusted:
 * every digest is checked before it is used in a request or a file name.
 */
import * as v from 'valibot';
import { SvcError } from '../../protocol/errors.ts';
import { kindOfHost } from '../../net/reach.ts';
import type { Located, RemoteFile } from './download.ts';
import { downloadFailed } from './failures.ts';
import { LAYER, MANIFEST_BYTES, ManifestSchema, type Layer } from './ollama-manifest.ts';
import type { OllamaReference } from './reference.ts';
import type { Source } from './source.ts';
import { readText, type WebAnswer, type Web } from './web.ts';

const REGISTRY = 'https://registry.ollama.ai';
const MANIFEST_TYPE = 'application/vnd.docker.distribution.manifest.v2+json';
const LICENSE_BYTES = 256 * 1024;
const LICENSE_CHARACTERS = 100;

/** @throws SvcError MODEL_NOT_FOUND, PROVIDER_AUTH, DOWNLOAD_FAILED; `signal.reason` */
export async function findInRegistry(web: Web, reference: OllamaReference, signal: AbortSignal): Promise<Source> {
  const { host, namespace, name, tag } = reference;
  const registry = addressOf(host);
  const shown = `${[host, namespace === 'library' && host === null ? null : namespace, name].filter((part) => part !== null).join('/')}:${tag}`;
  const base = `/v2/${namespace}/${name}`;
  const url = new URL(`${base}/manifests/${tag}`, registry);
  const { answer, value } = await web.json(
    { url, headers: { accept: MANIFEST_TYPE }, signal },
    registry,
    MANIFEST_BYTES,
  );
  if (answer.status !== 200) throw refusal(answer, shown);
  const manifest = v.safeParse(ManifestSchema, value);
  if (!manifest.success) {
    throw downloadFailed(`the manifest of ${shown} is not valid`, {
      hint: 'it may be damaged at the registry; nothing was downloaded',
      retryable: false,
    });
  }
  const { layers } = manifest.output;
  const ofType = (type: string): Layer[] => layers.filter(({ mediaType }) => mediaType === LAYER + type);
  const [model, ...others] = ofType('model');
  if (model === undefined || others.length > 0 || model.size === 0) {
    throw new SvcError('MODEL_NOT_FOUND', `${shown} has no model that svc can run`, {
      hint: "only GGUF models can be pulled, not Ollama's cloud models",
      param: 'model',
    });
  }
  const blob = (layer: Layer): URL => new URL(`${base}/blobs/${layer.digest}`, registry);
  const remote = (layer: Layer, what: string): RemoteFile => ({
    name: `${shown} (${what})`,
    sizeBytes: layer.size,
    digest: layer.digest,
    locate: (): Promise<Located> => Promise.resolve({ url: blob(layer), named: registry }),
  });
  const [projector] = ofType('projector');
  const [license] = ofType('license');
  return {
    id: shown,
    isIdFixed: true,
    replaces: ({ source }) => source.toLowerCase() === `ollama:${shown}`.toLowerCase(),
    aliases: [],
    origin: `ollama:${shown}`,
    weights: [remote(model, 'model')],
    projector: projector === undefined || projector.size === 0 ? null : remote(projector, 'projector'),
    license: license === undefined ? null : await readLicense(web, blob(license), registry, signal),
  };
}

/** Returns the first line with text. null: it could not be read; the pull continues without it. */
async function readLicense(web: Web, url: URL, registry: URL, signal: AbortSignal): Promise<string | null> {
  try {
    const text = await readText(await web.follow({ url, signal }, registry), LICENSE_BYTES);
    const line = text.split('\n').find((each) => /\w/.test(each)) ?? '';
    return (
      line
        .replace(/\p{Cc}/gu, ' ')
        .trim()
        .slice(0, LICENSE_CHARACTERS) || null
    );
  } catch {
    signal.throwIfAborted();
    return null;
  }
}

/** URL of the registry: https, but http for a registry on this machine. */
function addressOf(host: string | null): URL {
  if (host === null) return new URL(REGISTRY);
  const isHere = kindOfHost(new URL(`http://${host}`).hostname) === 'loopback';
  return new URL(`${isHere ? 'http' : 'https'}://${host}`);
}

function refusal({ status, url }: WebAnswer, shown: string): SvcError {
  if (status === 404) {
    return new SvcError('MODEL_NOT_FOUND', `there is no ${shown} at ${url.host}`, {
      hint: 'see https://ollama.com/library for names and tags',
      param: 'model',
    });
  }
  if (status === 401 || status === 403) {
    return new SvcError('PROVIDER_AUTH', `${url.host} refuses access to ${shown}`, {
      hint: 'pull it with Ollama, and add the file: svc model add FILE',
    });
  }
  return downloadFailed(`${url.host} answered with status ${status} when asked for ${shown}`, {
    hint: 'try again later',
    retryable: status >= 500 || status === 429,
  });
}
