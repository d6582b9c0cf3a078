/** Upper bounds of a request. Whatever exceeds one is refused with its name and the bound. */
export const LIMITS = {
  /** Bytes of an HTTP or control request body. */
  bodyBytes: 32 * 1024 * 1024,
  messages: 10_000,
  stopStrings: 64,
  stopStringBytes: 1024,
  logitBias: 1024,
  maxTokens: 1_048_576,
  contextLength: 16_777_216,
  keepAliveSeconds: 31_536_000,
  modelNameLength: 512,
  /** `provider:` and the name of one. */
  routeLength: 128,
  contentParts: 1024,
  tools: 512,
  toolNameLength: 256,
  toolCallIdLength: 256,
  topLogprobs: 20,
  providerKeyLength: 8192,
  /** Of all images of a prompt from the command line; as base64 they fit into a body. */
  imageBytes: 20 * 1024 * 1024,
  embedInputs: 2048,
  /** Ids of all inputs together; texts are bounded by the body. */
  embedTokens: 100_000,
  embedDimensions: 65_536,
  /** Of a grammar, also of the one that a schema is made into. */
  grammarBytes: 256 * 1024,
  schemaBytes: 64 * 1024,
  /** Schemas in schemas. */
  schemaDepth: 48,
  schemaEnumValues: 4096,
  /** Schemas and values looked at, those that are looked at again counted again. */
  schemaWork: 50_000,
  schemaPatternLength: 1024,
  /** What `maxLength`, `maxItems` and their like may ask for. */
  schemaRepetitions: 50_000,
} as const;
