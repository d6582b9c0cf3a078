/**
 * Parses the name of a model to pull. All fields of a Reference are validated and safe in a URL. None is ever used in
 * a path on this machine.
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
  /** A file of the repository; null: `quantization` chooses it. */
  readonly file: string | null;
  /** null: the preferred one (choose.ts). */
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

/** A short name, to be looked up in the catalogue. */
export interface ShortReference {
  readonly kind: 'short';
  readonly name: string;
  readonly quantization: string | null;
}

/** Names what to pull without the catalogue. */
export type FullReference = HubReference | OllamaReference | UrlReference;
export type Reference = FullReference | ShortReference;

const LONGEST = 512;
/** One segment of a repository, registry or revision: not only dots, no characters special in a path or a URL. */
const NAME = /^[a-z0-9_](?:[a-z0-9._-]{0,94}[a-z0-9_-])?$/i;
const HOST = /^(?=.{1,253}$)(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*(?::\d{1,5})?$/i;
/** Unsafe in a file name on any system: separators, streams and drives, wildcards, control characters. */
// eslint-disable-next-line no-control-regex
const UNSAFE = /[\\:*?"<>|\u0000-\u001f\u007f]/;

/** @throws SvcError INVALID_REQUEST */
export function parseReference(text: string, sha256?: string): Reference {
  if (text.length > LONGEST) throw unusable(`${text.slice(0, 60)}…`, 'is too long');
  const url = /^https?:\/\//i.test(text) ? text : undefined;
  if (url !== undefined) return urlReference(url, sha256);
  if (sha256 !== undefined) {
    throw new SvcError(
      'INVALID_REQUEST',
      'a SHA-256 can be given only with a URL; hubs and registries provide their own',
      {
        param: 'sha256',
      },
    );
  }
  const [, scheme = '', rest = ''] = /^(?:(hf|ollama):|(?:hf\.co|huggingface\.co)\/)?(.*)$/is.exec(text) ?? [];
  if (scheme.toLowerCase() === 'ollama') return ollamaReference(rest);
  if (scheme !== '' || rest !== text || rest.includes('/')) return hubReference(rest);
  const [name = '', quantization, ...more] = text.split(':');
  if (!NAME.test(name) || more.length > 0 || (quantization !== undefined && !NAME.test(quantization))) {
    throw unusable(text, 'is not a model name');
  }
  return { kind: 'short', name, quantization: quantization ?? null };
}

/** Parses a name as Ollama's own command does. @throws SvcError INVALID_REQUEST */
export function parseOllamaReference(text: string): OllamaReference {
  if (text.length > LONGEST) throw unusable(`${text.slice(0, 60)}…`, 'is too long');
  return ollamaReference(text);
}

/** True for the name of a file in a repository: `folder/file.gguf`. Used in URLs and messages only. */
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
    throw unusable(text, 'is not a repository: expected owner/repo');
  }
  if (revision !== undefined && !revision.split('/').every((part) => NAME.test(part))) {
    throw unusable(revision, 'is not a revision: expected a branch, a tag or a commit');
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
  if (parts.length > 3 || !isRight) throw unusable(text, 'is not a name in a registry: expected name[:tag]');
  return { kind: 'ollama', host, namespace, name, tag };
}

/** The expression alone accepts invalid addresses and ports, so the URL parser checks, too. */
function isHost(host: string): boolean {
  return HOST.test(host) && URL.canParse(`http://${host}`);
}

function urlReference(text: string, sha256: string | undefined): UrlReference {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || url.username !== '' || url.password !== '') throw unusable('the URL', 'cannot be used');
  const hexadecimal = /^(?:sha256:)?([0-9a-f]{64})$/i.exec(sha256 ?? '')?.[1];
  if (hexadecimal === undefined) {
    throw new SvcError('INVALID_REQUEST', 'pulling from a URL needs the SHA-256 of the file', {
      hint: 'svc model pull URL --sha256 HEXADECIMAL; look for it on the page that offers the file',
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
