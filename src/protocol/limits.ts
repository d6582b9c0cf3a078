export const DAY_MS = 86_400_000;

/** Upper bounds of a request. A field above its bound is refused; the error names the field and the bound. */
export const LIMITS = {
  /** Bytes of an HTTP or control request body. */
  bodyBytes: 32 * 1024 * 1024,
  messages: 10_000,
  stopStrings: 64,
  stopStringBytes: 1024,
  logitBias: 1024,
  /** LoRA adapters of a request. */
  lora: 16,
  /** Answers to one prompt. */
  choices: 16,
  /** Prompts of a legacy completion, and answers to all of them together. */
  completions: 64,
  maxTokens: 1_048_576,
  contextLength: 16_777_216,
  keepAliveSeconds: 31_536_000,
  timeoutMs: DAY_MS,
  modelNameLength: 512,
  /** Entries in the list of models of an API key. */
  keyModels: 256,
  /** `provider:NAME`. */
  routeLength: 128,
  contentParts: 1024,
  tools: 512,
  toolNameLength: 256,
  templateVariables: 64,
  /** Servers such as LiteLLM keep signatures of several thousand characters in it. */
  toolCallIdLength: 64 * 1024,
  /** Id of a response, or of an item of one. */
  itemIdLength: 256,
  /** `metadata` of a response. */
  metadata: 16,
  metadataKeyLength: 64,
  metadataValueLength: 512,
  /** Bytes of the request for a background response, without its input: its events repeat most of them. */
  repeatedBytes: 1024 * 1024,
  topLogprobs: 20,
  providerKeyLength: 8192,
  /** A picture or sound; on the command line all of a prompt together. Base64-encoded they fit in a body. */
  mediaBytes: 20 * 1024 * 1024,
  /** A body of multipart/form-data: a file of `mediaBytes`, and the fields beside it. */
  formBytes: 21 * 1024 * 1024,
  formParts: 64,
  /** Headers of a part of a form. */
  formHeaderBytes: 8192,
  /** Characters of a transcription's `prompt`. */
  transcriptionPromptLength: 16_384,
  /** Pictures and sounds of a request to a local model. */
  media: 64,
  embedInputs: 2048,
  /** Token ids of all inputs together; texts are bounded by the body. */
  embedTokens: 100_000,
  embedDimensions: 65_536,
  rerankDocuments: 1000,
  /** Files beside the one with the gap. */
  infillFiles: 256,
  /** Names of the fields that an answer to llama-server's clients is to have. */
  responseFields: 256,
  responseFieldLength: 64,
  /** Maximum bytes of a text to tokenize, in UTF-8. */
  tokenizeBytes: 2 * 1024 * 1024,
  /** Maximum bytes of a conversation to tokenize, as rendered text: its tokens must fit into a frame, too. */
  renderedBytes: 4 * 1024 * 1024,
  /** Token ids to detokenize, or of the prompts of a legacy completion together. */
  tokenIds: 100_000,
  /** Numbers of a `context` of `/api/generate`: Ollama's own client reads lines of up to 512 KiB. */
  ollamaContext: 65_536,
  /** Size of a grammar, given or compiled from a schema. */
  grammarBytes: 256 * 1024,
  schemaBytes: 64 * 1024,
  /** Nesting depth of schemas. */
  schemaDepth: 48,
  schemaEnumValues: 4096,
  /** Schemas and values visited while compiling a schema, counting repeated visits. */
  schemaWork: 50_000,
  /** The same for the schemas of all tools of a request together. */
  toolsWork: 200_000,
  /** Members of an object in the schema of a tool. */
  schemaMembers: 256,
  /** Members of all objects in the schemas of all tools of a request together, and characters of their names. */
  toolsMembers: 16_384,
  toolsNameCharacters: 262_144,
  schemaPatternLength: 1024,
  /** Length of a property's name. */
  schemaNameLength: 1024,
  /** Maximum of `maxLength`, `maxItems` and similar keywords. */
  schemaRepetitions: 50_000,
} as const;

/** Maximum delay of a Node timer: 24 days. A longer one would end at once. */
export const LONGEST_TIMER_MS: number = 2 ** 31 - 1;
