/**
 * Client of the Hugging Face hub and its mirrors. It uses these requests:
 *
 *   GET  /api/models/REPO/revision/REV              the commit of a revision
 *   GET  /api/models/REPO/tree/COMMIT?recursive     its files, with sizes and SHA-256 (pages: Link rel="next")
 *   HEAD /REPO/resolve/COMMIT/FILE                  X-Linked-Etag and X-Linked-Size, and the location of the bytes:
 *                                                   a redirect to another origin, which gets no token
 *   GET  /api/models?search=…&filter=gguf           the search
 *
 * All requests of a pull use one commit, so that a push meanwhile changes nothing.
 */
import * as v from 'valibot';
import { retryAfterSeconds } from '../../net/retry-after.ts';
import { nextLink } from '../../net/link-header.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { HubSettings } from '../../protocol/routes.ts';
import { chooseFiles, type ListedFile } from './choose.ts';
import type { Located, RemoteFile } from './download.ts';
import { downloadFailed } from './failures.ts';
import { isFileName, type HubReference } from './reference.ts';
import { MOST_FILE_BYTES, MOST_PARTS, type Source } from './source.ts';
import { leadsTo, type WebAnswer, type Credential, type Web } from './web.ts';

export interface HubModel {
  readonly repo: string;
  readonly downloads: number | null;
  readonly likes: number | null;
  readonly license: string | null;
  readonly updated_at: string | null;
}

const INFO_BYTES = 8 * 1024 * 1024;
const PAGE_BYTES = 8 * 1024 * 1024;
const PAGES = 32;

const InfoSchema = v.object({
  sha: v.pipe(v.string(), v.regex(/^[0-9a-f]{40}$/)),
  tags: v.optional(v.array(v.string()), []),
});
const TreeSchema = v.array(
  v.object({
    type: v.string(),
    path: v.string(),
    size: v.optional(v.number(), 0),
    lfs: v.optional(v.object({ oid: v.string(), size: v.number() })),
  }),
);
const SearchSchema = v.array(
  v.object({
    id: v.string(),
    downloads: v.optional(v.nullable(v.number())),
    likes: v.optional(v.nullable(v.number())),
    lastModified: v.optional(v.nullable(v.string())),
    tags: v.optional(v.array(v.string()), []),
  }),
);

export class Hub {
  readonly #web: Web;
  readonly #settings: HubSettings;
  readonly #endpoint: URL;
  readonly #credential: Credential | undefined;

  /** @throws SvcError CONFIG_INVALID */
  constructor(web: Web, settings: HubSettings) {
    const { endpoint, token } = settings;
    this.#web = web;
    this.#settings = settings;
    const url = URL.canParse(endpoint) ? new URL(endpoint) : null;
    if (url === null || !/^https?:$/.test(url.protocol)) {
      throw new SvcError('CONFIG_INVALID', 'HF_ENDPOINT is not an http or https URL', {
        hint: 'for example HF_ENDPOINT=https://hf-mirror.example',
      });
    }
    this.#endpoint = url;
    this.#credential = token === null ? undefined : { origin: url.origin, token };
  }

  /** @throws SvcError MODEL_NOT_FOUND, PROVIDER_AUTH, DOWNLOAD_FAILED, INVALID_REQUEST; `signal.reason` */
  async find({ repo, revision, file, quantization }: HubReference, signal: AbortSignal): Promise<Source> {
    const { sha: commit, tags } = await this.#info(repo, revision, signal);
    const files = await this.#tree(repo, commit, signal);
    const { weights, projector, label } = chooseFiles(repo, files, { file, quantization });
    if (weights.length > MOST_PARTS)
      throw downloadFailed(`${repo} has a model in ${weights.length} parts`, { retryable: false });
    const at = revision === null ? '' : `@${revision}`;
    const remote = (each: ListedFile): RemoteFile => this.#remote(repo, commit, each);
    const origin = (what: string): string => `hf:${repo}:${what}${at}`;
    // The model may have been pulled by its label, or by any of its files.
    const origins = [label, ...weights.map(({ path }) => path)].map((what) => origin(what).toLowerCase());
    return {
      id: `${repo}:${label}${at}`,
      isIdFixed: true,
      replaces: ({ source }) => origins.includes(source.toLowerCase()),
      aliases: [],
      origin: origin(file ?? label),
      weights: weights.map(remote),
      projector: projector === null ? null : remote(projector),
      license: licenseIn(tags),
    };
  }

  /** Most downloaded first. @throws SvcError DOWNLOAD_FAILED; `signal.reason` */
  async search(words: string, limit: number, signal: AbortSignal): Promise<HubModel[]> {
    const query = new URLSearchParams({ filter: 'gguf', sort: 'downloads', direction: '-1', limit: String(limit) });
    if (words !== '') query.set('search', words);
    const { answer, value } = await this.#ask(`/api/models?${query.toString()}`, PAGE_BYTES, signal);
    if (answer.status !== 200) throw this.#refusal(answer, 'the search', null);
    return this.#understood(SearchSchema, value)
      .slice(0, limit)
      .map(({ id, downloads, likes, lastModified, tags }) => ({
        repo: id,
        downloads: downloads ?? null,
        likes: likes ?? null,
        license: licenseIn(tags),
        updated_at: lastModified ?? null,
      }));
  }

  async #info(repo: string, revision: string | null, signal: AbortSignal): Promise<v.InferOutput<typeof InfoSchema>> {
    const path = `/api/models/${repo}/revision/${encodeURIComponent(revision ?? 'main')}`;
    const { answer, value } = await this.#ask(path, INFO_BYTES, signal);
    if (answer.status !== 200) throw this.#refusal(answer, repo, revision);
    return this.#understood(InfoSchema, value);
  }

  async #tree(repo: string, commit: string, signal: AbortSignal): Promise<ListedFile[]> {
    const files: ListedFile[] = [];
    let next: string | null = `/api/models/${repo}/tree/${commit}?recursive=true`;
    for (let page = 0; next !== null; page += 1) {
      if (page === PAGES) throw downloadFailed(`${repo} has too many files to list`, { retryable: false });
      const { answer, value } = await this.#ask(next, PAGE_BYTES, signal);
      if (answer.status !== 200) throw this.#refusal(answer, repo, commit);
      for (const { type, path, size, lfs } of this.#understood(TreeSchema, value)) {
        // A file with an unsafe name cannot be requested, so it is not a model file.
        if (type !== 'file' || !isFileName(path)) continue;
        const digest = lfs !== undefined && /^[0-9a-f]{64}$/.test(lfs.oid) ? `sha256:${lfs.oid}` : null;
        files.push({ path, sizeBytes: lfs?.size ?? size, digest });
      }
      next = this.#nextPage(answer);
    }
    return files;
  }

  #remote(repo: string, commit: string, { path, sizeBytes, digest }: ListedFile): RemoteFile {
    if (digest === null || !Number.isSafeInteger(sizeBytes) || sizeBytes <= 0 || sizeBytes > MOST_FILE_BYTES) {
      throw downloadFailed(`${this.#endpoint.host} reports no valid size and SHA-256 for ${path}`, {
        hint: 'svc does not download a file that it cannot verify; pull from another source',
        retryable: false,
      });
    }
    const locate = (signal: AbortSignal): Promise<Located> =>
      this.#locate(repo, commit, path, { sizeBytes, digest }, signal);
    return { name: path, sizeBytes, digest, locate };
  }

  async #locate(
    repo: string,
    commit: string,
    path: string,
    { sizeBytes, digest }: { readonly sizeBytes: number; readonly digest: string },
    signal: AbortSignal,
  ): Promise<Located> {
    const url = this.#url(`/${repo}/resolve/${commit}/${path.split('/').map(encodeURIComponent).join('/')}`);
    // A redirect within the origin leads to a renamed repository, one to another origin to the bytes.
    const isElsewhere = (next: URL): boolean => next.origin !== this.#endpoint.origin;
    const asked = { url, method: 'HEAD', credential: this.#credential, signal } as const;
    const answer = await this.#web.follow(asked, this.#endpoint, isElsewhere);
    answer.body.destroy();
    const next = leadsTo(answer);
    if (next === null && answer.status !== 200) throw this.#refusal(answer, repo, commit);
    const linked = answer.header('x-linked-etag')?.replace(/^(W\/)?"|"$/g, '');
    const size = answer.header('x-linked-size');
    if (linked !== undefined && /^[0-9a-f]{64}$/.test(linked) && `sha256:${linked}` !== digest) {
      throw this.#contradiction(path, 'SHA-256');
    }
    if (size !== undefined && Number(size) !== sizeBytes) throw this.#contradiction(path, 'size');
    if (next !== null) return { url: next, named: this.#endpoint };
    return { url: answer.url, named: this.#endpoint, credential: this.#credential };
  }

  async #ask(path: string, mostBytes: number, signal: AbortSignal): Promise<{ answer: WebAnswer; value: unknown }> {
    this.#checkOnline();
    const asked = { url: this.#url(path), credential: this.#credential, signal };
    return await this.#web.json(asked, this.#endpoint, mostBytes);
  }

  /** URL of a path at the endpoint, which may have a path of its own. */
  #url(path: string): URL {
    return new URL(this.#endpoint.pathname.replace(/\/$/, '') + path, this.#endpoint.origin);
  }

  #nextPage(answer: WebAnswer): string | null {
    const next = nextLink(answer.header('link') ?? '');
    if (next === undefined) return null;
    const url = URL.canParse(next, answer.url.href) ? new URL(next, answer.url.href) : null;
    if (url?.origin !== this.#endpoint.origin) {
      throw downloadFailed(`${this.#endpoint.host} continues its file list at another origin`, { retryable: false });
    }
    return url.pathname.slice(this.#endpoint.pathname.replace(/\/$/, '').length) + url.search;
  }

  #understood<Schema extends v.GenericSchema>(schema: Schema, value: unknown): v.InferOutput<Schema> {
    const result = v.safeParse(schema, value);
    if (result.success) return result.output;
    throw downloadFailed(`${this.#endpoint.host} does not answer like a Hugging Face hub`, {
      hint: 'check that HF_ENDPOINT is the address of a hub',
      retryable: false,
    });
  }

  #contradiction(path: string, what: string): SvcError {
    return downloadFailed(`${this.#endpoint.host} reports two different values for the ${what} of ${path}`, {
      hint: 'the hub may be updating the file: try again later',
      retryable: false,
    });
  }

  #checkOnline(): void {
    if (!this.#settings.is_offline) return;
    throw downloadFailed('HF_HUB_OFFLINE is set: svc sends no request to a hub', {
      hint: 'unset it, or add a local file: svc model add FILE',
      retryable: false,
    });
  }

  #refusal({ status, header, url }: WebAnswer, repo: string, revision: string | null): SvcError {
    const code = header('x-error-code');
    const page = `${this.#endpoint.origin}/${repo}`;
    if (code === 'GatedRepo' || (status === 403 && code === undefined)) {
      const hint =
        this.#settings.token === null
          ? `accept its terms at ${page}, make a token at ${this.#endpoint.origin}/settings/tokens, and pull again with HF_TOKEN set to it`
          : `accept its terms at ${page} with the account of HF_TOKEN; some owners approve each request by hand`;
      return new SvcError('PROVIDER_AUTH', `${repo} is gated: its terms must be accepted first`, { hint });
    }
    if (code === 'RevisionNotFound') {
      return new SvcError('MODEL_NOT_FOUND', `${repo} has no revision ${revision ?? 'main'}`, { param: 'model' });
    }
    if (status === 401 && this.#settings.token !== null && code !== 'RepoNotFound') {
      return new SvcError('PROVIDER_AUTH', `${url.host} refuses the token in HF_TOKEN`, {
        hint: `make another at ${this.#endpoint.origin}/settings/tokens, or unset HF_TOKEN`,
      });
    }
    // The hub reports a private repository as missing to callers without access.
    if ([401, 404].includes(status)) {
      return new SvcError('MODEL_NOT_FOUND', `there is no repository ${repo} at ${url.host}, or it is private`, {
        hint: 'search for it: svc model search; a private repository needs HF_TOKEN',
        param: 'model',
      });
    }
    const seconds = retryAfterSeconds(header, Date.now());
    return downloadFailed(`${url.host} answered with status ${status} when asked for ${repo}`, {
      hint:
        status === 429 ? 'try again in a few minutes; with HF_TOKEN set a hub allows more requests' : 'try again later',
      retryable: status >= 500 || status === 429,
      ...(seconds === null ? {} : { retryAfterSeconds: seconds }),
    });
  }
}

function licenseIn(tags: readonly string[]): string | null {
  return tags.find((tag) => tag.startsWith('license:'))?.slice('license:'.length, 100) ?? null;
}
