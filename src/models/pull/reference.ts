/**
 * What a person may call a model that is not here yet. Everything in a Reference has been checked: it
 * may stand in a URL. None of it ever stands in a path on this machine.
 *
 *   hf:owner/repo[:QUANTISATION or FILE.gguf][@revision]      also hf.co/… and huggingface.co/…
 *   ollama:[host/][namespace/]name[:tag]
 *   https://…/file.gguf                                       with its SHA-256
 *   a name of the catalogue
 */
import { SvcError } from '../../protocol/errors.ts';

export interface HubReference {
  readonly kind: 'hub';
  /** `owner/repo`. */
  readonly repo: string;
  /** null: `main`. */
  readonly revision: string | null;
  /** Of the repository; null: told by `quantization`. */
  readonly file: string | null;
  /** null: the one that suits most. */
  readonly quantization: string | null;
}

export interface OllamaReference {
  readonly kind: 'ollama';
  /** `host` or `host:port`; null: Ollama's own registry. */
  readonly host: string | null;
  /** `library` where none was named. */
  readonly namespace: string;
  readonly name: string;
  readonly tag: string;
}

export interface UrlReference {
  readonly kind: 'url';
  readonly url: URL;
  /** `sha256:` and 64 hexadecimal digits. */
  readonly digest: string;
}

/** Perhaps of the catalogue. */
export interface ShortReference {
  readonly kind: 'short';
  readonly name: string;
  readonly quantization: string | null;
}

export type Reference = HubReference | OllamaReference | UrlReference | ShortReference;

const LONGEST = 512;
/** One name in a repository's, registry's or revision's path: no dots alone, nothing that a path or a URL reads. */
const NAME = /^[a-z0-9_](?:[a-z0-9._-]{0,94}[a-z0-9_-])?$/i;
const HOST = /^(?=.{1,253}$)(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*(?::\d{1,5})?$/i;
/** In a file's name, whatever the system: separators, streams and drives, wildcards, control characters. */
// eslint-disable-next-line no-control-regex
const UNSAFE = /[\\:*?"<>|\u0000-\u001f\u007f]/;

/** @throws SvcError INVALID_REQUEST */
export function parseReference(text: string, sha256?: string): Reference {
  if (text.length > LONGEST) throw unusable(`${text.slice(0, 60)}…`, 'is too long');
  const url = /^https?:\/\//i.test(text) ? text : undefined;
  if (url !== undefined) return urlReference(url, sha256);
  if (sha256 !== undefined) {
    throw new SvcError('INVALID_REQUEST', 'a SHA-256 is for a URL; hubs and registries tell their own', {
      param: 'sha256',
    });
  }
  const [, scheme = '', rest = ''] = /^(?:(hf|ollama):|(?:hf\.co|huggingface\.co)\/)?(.*)$/is.exec(text) ?? [];
  if (scheme.toLowerCase() === 'ollama') return ollamaReference(rest);
  if (scheme !== '' || rest !== text || rest.includes('/')) return hubReference(rest);
  const [name = '', quantization, ...more] = text.split(':');
  if (!NAME.test(name) || more.length > 0 || (quantization !== undefined && !NAME.test(quantization))) {
    throw unusable(text, 'is no name of a model');
  }
  return { kind: 'short', name, quantization: quantization ?? null };
}

/** Ollama's clients name models as its own command does. @throws SvcError INVALID_REQUEST */
export function parseOllamaReference(text: string): OllamaReference {
  if (text.length > LONGEST) throw unusable(`${text.slice(0, 60)}…`, 'is too long');
  return ollamaReference(text);
}

/** A file's name in a repository: `folder/file.gguf`. It stands in URLs and messages only. */
export function isFileName(path: string): boolean {
  const segments = path.split('/');
  return (
    path.length <= LONGEST && segments.every((each) => each !== '' && !/^\.{1,2}$/.test(each) && !UNSAFE.test(each))
  );
}

function hubReference(text: string): HubReference {
  const [, repo = '', what, revision] = /^([^:@]+)(?::([^@]*))?(?:@(.+))?$/s.exec(text) ?? [];
  const names = repo.split('/');
  if (names.length !== 2 || !names.every((name) => NAME.test(name))) {
    throw unusable(text, 'is no repository: owner/repo is meant');
  }
  if (revision !== undefined && !revision.split('/').every((part) => NAME.test(part))) {
    throw unusable(revision, 'is no revision: a branch, a tag or a commit is meant');
  }
  const isFile = what?.toLowerCase().endsWith('.gguf') ?? false;
  if (what !== undefined && (isFile ? !isFileName(what) : !NAME.test(what))) {
    throw unusable(what, 'is neither a quantisation nor a .gguf file');
  }
  return {
    kind: 'hub',
    repo,
    revision: revision ?? null,
    file: isFile && what !== undefined ? what : null,
    quantization: isFile ? null : (what ?? null),
  };
}

function ollamaReference(text: string): OllamaReference {
  const [, path = '', tag = 'latest'] = /^(.*?)(?::([^:/]*))?$/s.exec(text) ?? [];
  const parts = path.split('/');
  const [name = '', namespace = 'library', host = null] = [...parts].reverse();
  const isRight = NAME.test(name) && NAME.test(namespace) && NAME.test(tag) && (host === null || isHost(host));
  if (parts.length > 3 || !isRight) throw unusable(text, 'is no name of a registry: name[:tag] is meant');
  return { kind: 'ollama', host, namespace, name, tag };
}

/** A number that is no address, or no port, passes the expression. */
function isHost(host: string): boolean {
  return HOST.test(host) && URL.canParse(`http://${host}`);
}

function urlReference(text: string, sha256: string | undefined): UrlReference {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || url.username !== '' || url.password !== '') throw unusable('the URL', 'cannot be used');
  const hexadecimal = /^(?:sha256:)?([0-9a-f]{64})$/i.exec(sha256 ?? '')?.[1];
  if (hexadecimal === undefined) {
    throw new SvcError('INVALID_REQUEST', 'a URL is fetched only with the SHA-256 that its file must have', {
      hint: 'svc model pull URL --sha256 HEXADECIMAL; who offers the file tells it',
      param: 'sha256',
    });
  }
  return { kind: 'url', url, digest: `sha256:${hexadecimal.toLowerCase()}` };
}

function unusable(text: string, what: string): SvcError {
  return new SvcError('INVALID_REQUEST', `${JSON.stringify(text)} ${what}`, {
    hint: 'hf:owner/repo[:QUANTISATION][@revision], ollama:name[:tag], an https URL, or a name of `svc model search`',
    param: 'model',
  });
}
