/** A provider as its backend needs it: the catalogue's entry, what the config says over it, and where its key is. */
import type { ProviderRecord } from '../../protocol/records.ts';

/** The API that is spoken; each has a file of its own here. */
export type Api = 'chat_completions' | 'responses' | 'messages' | 'gemini';

/** In what a server differs from the API that it speaks. What is absent is as the API's own documents have it. */
export interface Quirks {
  /** The header that carries the key. Absent: as the API has it. */
  readonly key_header?: 'authorization' | 'x-api-key' | 'api-key' | 'x-goog-api-key';
  /** The field of the token limit, where `max_tokens` is refused. */
  readonly max_tokens_field?: 'max_completion_tokens';
  /** The field of `repeat_penalty`, where it is not called that. */
  readonly repeat_penalty_field?: 'repetition_penalty';
  /** Takes GBNF in `grammar`, as llama-server does. */
  readonly grammar?: true;
  /**
   * Fields that are refused, or ignored without a word; in our names or in the API's (`response_format`),
   * or `images`. A request that needs one is refused by us.
   */
  readonly unsupported?: readonly string[];
  /** Asks for usage at the end of a stream; false: the server refuses `stream_options`. Default true. */
  readonly stream_usage?: boolean;
  /** Thinking has to be sent back beside the tool calls that followed it. */
  readonly replay_reasoning?: boolean;
  /** Path below the base URL that lists the models; null: there is none. Absent: as the API has it. */
  readonly models_path?: string | null;
  /** Sent with every request, `anthropic-version` for example. Never a key. */
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Provider {
  readonly name: string;
  readonly kind: Exclude<ProviderRecord['kind'], 'local'>;
  readonly api: Api;
  /** Base URLs without a slash at the end; more than one make a cluster. */
  readonly endpoints: readonly string[];
  readonly defaultModel: string | null;
  readonly quirks: Quirks;
  /** Somebody put the endpoints into the config: only then may they lie on this machine or in a private network. */
  readonly isDeclared: boolean;
  /** Requests under way at once; others wait. null: no bound. */
  readonly concurrency: number | null;
  /** Silence of the answer, in milliseconds, after which it is given up. */
  readonly idleTimeoutMs: number;
  readonly enabled: boolean;
  readonly isDefaultCloud: boolean;
  /** Where the key comes from, without the key. */
  readonly credential: () => ProviderRecord['credential'];
  /** The key, read anew for each request. null: there is none. Throws CONFIG_INVALID when it cannot be read. */
  readonly readKey: () => Promise<string | null>;
}
