/** A provider as its backend needs it: the catalogue entry, overridden by the config, and access to its key. */
import type { ProviderRecord } from '../../protocol/records.ts';

/** The provider's API; each is implemented in its own file here. */
export type Api = 'chat_completions' | 'responses' | 'messages' | 'gemini';

/** Differences between a server and the documented API. Absent: as documented. */
export interface Quirks {
  /** Header of the key. Absent: the API's default. */
  readonly key_header?: 'authorization' | 'x-api-key' | 'api-key' | 'x-goog-api-key';
  /** Field of the token limit, if the server refuses `max_tokens`. */
  readonly max_tokens_field?: 'max_completion_tokens';
  /** Field of the repeat penalty, if not `repeat_penalty`. */
  readonly repeat_penalty_field?: 'repetition_penalty';
  /** Accepts GBNF in `grammar`, like llama-server. */
  readonly grammar?: true;
  /**
   * Fields that the server refuses or silently ignores, by our names or the API's (`response_format`), or `images`. svc
   * refuses requests that need one.
   */
  readonly unsupported?: readonly string[];
  /** Request usage at the end of a stream. false: the server refuses `stream_options`. Default true. */
  readonly stream_usage?: boolean;
  /** Reasoning must be sent back with the tool calls that followed it. */
  readonly replay_reasoning?: boolean;
  /** Maximum inputs of an embedding request, if fewer than in the API. Longer lists are sent in several requests. */
  readonly embedding_inputs?: number;
  /** Path of the model list below the base URL; null: no list. Absent: the API's default. */
  readonly models_path?: string | null;
  /** Headers of every request, for example `anthropic-version`. Never a key. */
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Provider {
  readonly name: string;
  readonly kind: Exclude<ProviderRecord['kind'], 'local'>;
  readonly api: Api;
  /** Base URLs without trailing slash; more than one make a cluster. */
  readonly endpoints: readonly string[];
  readonly defaultModel: string | null;
  /** Default model for embeddings. */
  readonly embeddingModel: string | null;
  readonly quirks: Quirks;
  /** True if the endpoints come from the config: only then may they be on this machine or in a private network. */
  readonly isDeclared: boolean;
  /** Maximum concurrent requests; others wait. null: no limit. */
  readonly concurrency: number | null;
  /** Time without data after which an answer is aborted. */
  readonly idleTimeoutMs: number;
  readonly enabled: boolean;
  readonly isDefaultCloud: boolean;
  /** Source of the key, without the key itself. */
  readonly credential: () => ProviderRecord['credential'];
  /** Reads the key, for each request. null: no key. Throws CONFIG_INVALID if it cannot be read. */
  readonly readKey: () => Promise<string | null>;
}
