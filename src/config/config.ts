/**
 * The configuration: the environment overrides the config file (JSON with comments), which overrides the defaults.
 * Every error is reported with file, line and column; nothing is silently ignored.
 */
import { statSync } from 'node:fs';
import {
  findNodeAtLocation,
  parseTree,
  printParseErrorCode,
  getNodeValue,
  type Node,
  type ParseError,
} from 'jsonc-parser';
import * as v from 'valibot';
import { readTextSync } from '../files/open-file.ts';
import { whyOf } from '../files/why.ts';
import { SvcError } from '../protocol/errors.ts';
import { orElse } from '../protocol/foreign-text.ts';
import { given } from '../protocol/given.ts';
import { LOG_LEVELS, type LogLevel } from '../protocol/logs.ts';
import { suggest } from '../protocol/suggest.ts';
import { address, addressOf } from './address.ts';
import { catalogue } from './catalogue.ts';
import { variable, type Variable } from '../process/environment.ts';
import type { Paths } from '../home/paths.ts';
import {
  cacheType,
  choosesGpusTwice,
  contextLength,
  cpuExperts,
  endlessNames,
  gpuLayers,
  mainGpu,
  ModelsSchema,
  namesOfTwoGpuChoices,
  repetitionGuard,
  tensorSplit,
} from './model-settings.ts';
import { OriginsSchema } from './origins.ts';
import { PoliciesSchema } from './policy-settings.ts';
import { ProvidersSchema } from './provider-settings.ts';
import { flag, optionalSection, section, text, wholeNumber } from './schema.ts';
import { keysAt, type Schema } from './schema-keys.ts';
import { TracesSchema } from './traces-settings.ts';

const CONFIG_FILE_BYTES = 1024 * 1024;

const logLevel = v.picklist(LOG_LEVELS, `must be one of ${LOG_LEVELS.join(', ')}`);

export const ConfigSchema = section({
  http: optionalSection({
    host: v.exactOptional(text, '127.0.0.1'),
    /** 0: any free port. */
    port: v.exactOptional(wholeNumber(0, 65_535), 7117),
    /** Names that a Host header may have besides the bound address. */
    allowed_hosts: v.exactOptional(v.array(text, 'must be a list of names'), []),
    /** Pages that may use the API, and how far. */
    origins: v.exactOptional(OriginsSchema, []),
  }),
  grpc: optionalSection({
    host: v.exactOptional(text, '127.0.0.1'),
    /** 0: any free port. */
    port: v.exactOptional(wholeNumber(0, 65_535), 7118),
  }),
  ollama: optionalSection({
    /** Second HTTP listener, where Ollama's clients look for it. null: none. */
    listen: v.exactOptional(v.nullable(address), null),
  }),
  models: ModelsSchema,
  engine: optionalSection({
    /** In tokens. Absent: the context that the model was trained for, as far as memory allows. */
    context_length: v.exactOptional(contextLength),
    /** Absent: one for each performance core. */
    threads: v.exactOptional(wholeNumber(1, 512)),
    /** Threads for long prompts, and for embeddings. Absent: as many as `threads`. */
    prompt_threads: v.exactOptional(wholeNumber(1, 512)),
    /** Absent: as many as fit. */
    gpu_layers: v.exactOptional(gpuLayers),
    /** GPU that gets these layers. Absent: all GPUs share them. */
    main_gpu: v.exactOptional(mainGpu),
    /** Share of each GPU in the layers. Absent: by their free memory. */
    tensor_split: v.exactOptional(tensorSplit),
    /** Layers whose experts stay in memory. Absent: as many as do not fit on the GPU. */
    cpu_experts: v.exactOptional(cpuExperts),
    /** Type of the KV cache. Absent: F16, or Q8_0 if only that fits. */
    cache_type: v.exactOptional(cacheType),
    /** Draft model for speculative decoding. null: none. */
    draft_model: v.exactOptional(v.nullable(text), null),
    /** Generations that one engine runs together. */
    max_sequences: v.exactOptional(wholeNumber(1, 255)),
    /** If an answer repeats itself without end: `warn` reports it, `stop` ends the answer. */
    repetition_guard: v.exactOptional(repetitionGuard, 'off'),
    /** An engine without progress for this time is killed and restarted. */
    stall_timeout_seconds: v.exactOptional(wholeNumber(1, 86_400), 60),
    /** Requests that may wait; further ones are refused with BUSY. */
    queue_limit: v.exactOptional(wholeNumber(1, 100_000), 256),
    /** Requests that may share cached prefixes: `key`, only those of the same API key. */
    prefix_sharing: v.exactOptional(v.picklist(['all', 'key'], 'must be all or key'), 'all'),
    /** Size limit of the prefix files of all engines on disk. 0: no prefix files. Absent: a share of the free disk. */
    prefix_disk_bytes: v.exactOptional(wholeNumber(0, 2 ** 50)),
  }),
  responses: optionalSection({
    /** False: no response of the Responses API is stored, and those stored before are deleted. */
    store: v.exactOptional(flag, true),
    /** Age at which a stored response is deleted. */
    keep_days: v.exactOptional(wholeNumber(1, 36_500), 30),
    /** Size limit of all stored responses; the oldest are deleted. */
    disk_bytes: v.exactOptional(wholeNumber(0, 2 ** 50), 1024 ** 3),
  }),
  history: optionalSection({
    /** Keeps the conversations of `svc chat` and `svc run --continue`. */
    enabled: v.exactOptional(flag, false),
    /** Time after its last turn at which a conversation is deleted. */
    keep_days: v.exactOptional(wholeNumber(1, 36_500), 30),
    /** Size limit of all conversations; the oldest are deleted. */
    disk_bytes: v.exactOptional(wholeNumber(0, 2 ** 50), 64 * 1024 ** 2),
  }),
  metrics: optionalSection({
    /** Exports some metrics under vLLM's names, too. */
    vllm_aliases: v.exactOptional(flag, false),
  }),
  traces: TracesSchema,
  providers: v.exactOptional(ProvidersSchema, {}),
  policies: v.exactOptional(PoliciesSchema, {}),
  cloud: optionalSection({
    /** The provider of `--cloud`. Absent: the only one that has a key. */
    default_provider: v.exactOptional(text),
  }),
  log: optionalSection({ level: v.exactOptional(logLevel, 'info') }),
});

export type Config = v.InferOutput<typeof ConfigSchema>;

/** One error in the config file; lines and columns count from 1. */
export interface ConfigProblem {
  readonly line: number;
  readonly column: number;
  readonly message: string;
  /** A similar key, where one is probably mistyped. */
  readonly likely?: string;
}

/** Loads the config. A missing file counts as empty. Throws CONFIG_INVALID. */
export function loadConfig(paths: Pick<Paths, 'configFile'>): Config {
  const file = paths.configFile;
  const { config, problems } = parseConfig(readConfigFile(file));
  const [first] = problems;
  if (first !== undefined) {
    const others = problems.length === 1 ? '' : ` (and ${String(problems.length - 1)} more)`;
    throw new SvcError(
      'CONFIG_INVALID',
      `${file}:${String(first.line)}:${String(first.column)}: ${first.message}${others}`,
      {
        hint: first.likely === undefined ? `edit ${file}` : `did you mean "${first.likely}"? edit ${file}`,
      },
    );
  }
  return withEnvironment(config);
}

/**
 * Returns the config without the file: the defaults and the environment. Ignores the environment where it is invalid.
 */
export function configWithoutFile(): Config {
  const { config } = parseConfig('');
  return orElse(() => withEnvironment(config), config);
}

/** Parses the text of a config file. With problems, `config` has the defaults. */
export function parseConfig(source: string): { config: Config; problems: ConfigProblem[] } {
  const defaults = v.parse(ConfigSchema, {});
  const place = (offset: number, message: string): ConfigProblem => ({ ...position(source, offset), message });

  const errors: ParseError[] = [];
  const root = parseTree(source, errors, { allowTrailingComma: true, allowEmptyContent: true });
  if (errors.length > 0) {
    // One mistake can make the parser report several; the first has the right place.
    return { config: defaults, problems: errors.slice(0, 1).map((error) => place(error.offset, syntaxMessage(error))) };
  }
  if (root === undefined) return { config: defaults, problems: [] };

  const result = v.safeParse(ConfigSchema, getNodeValue(root));
  const problems = [
    ...repeatedKeys(root).map(({ offset, value }) => place(offset, `duplicate key "${String(value)}"`)),
    ...(result.issues ?? []).map((issue) => ({
      ...place(...locate(root, issue)),
      ...given({ likely: likelyKey(issue) }),
    })),
  ];
  if (result.success) {
    const wrong = [unknownProviders, wrongNames, wrongGpus].flatMap((check) => check(root, result.output));
    problems.push(...wrong.map((at) => place(...at)));
  }
  if (result.success && problems.length === 0) return { config: result.output, problems };
  return { config: defaults, problems: problems.sort((a, b) => a.line - b.line || a.column - b.column) };
}

/** Duplicate keys: JSON parsers silently use the last one. */
function repeatedKeys(node: Node): Node[] {
  const seen = new Set<unknown>();
  return (node.children ?? []).flatMap((child) => {
    const key = node.type === 'object' ? child.children?.[0] : undefined;
    const isRepeated = key !== undefined && seen.has(key.value);
    if (key !== undefined) seen.add(key.value);
    return [...(isRepeated ? [key] : []), ...repeatedKeys(child)];
  });
}

function unknownProviders(root: Node, { cloud, policies, providers }: Config): [offset: number, message: string][] {
  const isKnown = (name: string): boolean =>
    name === 'local' || Object.hasOwn(providers, name) || typeof catalogue().get(name)?.base_url === 'string';
  const named: [keys: (string | number)[], name: string][] = Object.entries(policies).flatMap(
    ([policy, { candidates }]) =>
      candidates.map((candidate, index): [(string | number)[], string] => [
        ['policies', policy, 'candidates', index],
        candidate.replace(/\/.*/s, ''),
      ]),
  );
  const { default_provider } = cloud;
  if (default_provider !== undefined) named.push([['cloud', 'default_provider'], default_provider]);
  return named
    .filter(([keys, name]) => !isKnown(name) || (name === 'local' && keys[0] === 'cloud'))
    .map(([keys]) => {
      const node = findNodeAtLocation(root, keys);
      const what = keys[0] === 'cloud' ? 'must be the name of a provider' : 'must begin with the name of a provider';
      return [node?.offset ?? root.offset, `"${keys.join('.')}" ${what}`];
    });
}

function wrongNames(root: Node, { models }: Config): [offset: number, message: string][] {
  return endlessNames(models).map(({ name, problem }) => {
    const node = findNodeAtLocation(root, ['models', name, 'from']) ?? root;
    return [node.offset, `"models.${name}.from" ${problem}`];
  });
}

function wrongGpus(root: Node, { engine, models }: Config): [offset: number, message: string][] {
  const sections = namesOfTwoGpuChoices(models).map((name) => ['models', name]);
  if (choosesGpusTwice(engine)) sections.push(['engine']);
  return sections.map((keys) => {
    const node = findNodeAtLocation(root, [...keys, 'tensor_split']) ?? root;
    return [node.offset, `"${keys.join('.')}.tensor_split" cannot be combined with main_gpu`];
  });
}

function locate(root: Node, issue: v.BaseIssue<unknown>): [offset: number, message: string] {
  const keys = (issue.path ?? []).map((item) => item.key as string | number);
  const node = findNodeAtLocation(root, keys);
  const name = keys.length === 0 ? 'the config' : `"${keys.join('.')}"`;
  // An unknown key is shown at the key, not at its value.
  if (issue.type === 'strict_object' && issue.expected === 'never') {
    return [node?.parent?.offset ?? root.offset, unknownKey(keys, name)];
  }
  // A required key that is absent is shown at its object.
  const place = node ?? findNodeAtLocation(root, keys.slice(0, -1));
  return [place?.offset ?? root.offset, `${name} ${issue.message}`];
}

function likelyKey(issue: v.BaseIssue<unknown>): string | undefined {
  if (issue.type !== 'strict_object' || issue.expected !== 'never') return undefined;
  const keys = (issue.path ?? []).map((item) => String(item.key));
  const likely = suggest(keys.at(-1) ?? '', keysAt(ConfigSchema as Schema, keys.slice(0, -1)));
  return likely && [...keys.slice(0, -1), likely].join('.');
}

function unknownKey([section, provider, key]: readonly (string | number)[], name: string): string {
  if (section !== 'providers' || !isNameOfSecret(String(key))) return `unknown key ${name}`;
  return `${name} is not allowed: keys are not kept in this file. use svc provider set ${String(provider)} --api-key-stdin`;
}

/** True if a setting of this name probably holds a secret. */
export function isNameOfSecret(key: string): boolean {
  return /key|token|secret|password|credential/i.test(key);
}

function syntaxMessage(error: ParseError): string {
  const words = printParseErrorCode(error.error).replace(/(?<=[a-z])(?=[A-Z])/g, ' ');
  return `not valid JSON: ${words.toLowerCase()}`;
}

/** Lines and columns count from 1. */
export function position(source: string, offset: number): { line: number; column: number } {
  const before = source.slice(0, offset);
  return { line: before.split('\n').length, column: offset - before.lastIndexOf('\n') };
}

/** Reads the config file; returns an empty text if there is none. Throws CONFIG_INVALID when it cannot be read. */
export function readConfigFile(file: string): string {
  try {
    const { size } = statSync(file);
    if (size > CONFIG_FILE_BYTES) throw unreadable(file, `it is larger than ${String(CONFIG_FILE_BYTES)} bytes`);
    return readTextSync(file).replace(/^\uFEFF/, '');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw error instanceof SvcError ? error : unreadable(file, whyOf(error), error);
  }
}

function unreadable(file: string, why: string, cause?: unknown): SvcError {
  return new SvcError('CONFIG_INVALID', `cannot read ${file}: ${why}`, {
    hint: 'make it a readable file, or point SVC_CONFIG at another',
    cause,
  });
}

/** Converts each variable to settings by name, which override the file. */
const FROM_ENVIRONMENT: { readonly [Name in Variable]?: (value: string) => Readonly<Record<string, unknown>> } = {
  SVC_HTTP_ADDR: (value) => addressIn('http', value, 'SVC_HTTP_ADDR', '127.0.0.1:7117'),
  SVC_GRPC_ADDR: (value) => addressIn('grpc', value, 'SVC_GRPC_ADDR', '127.0.0.1:7118'),
  SVC_LOG_LEVEL: (value) => ({ 'log.level': parseLevel(value) }),
  // OpenTelemetry's own variables, which are set for many programs: the daemon warns of an invalid one and continues.
  OTEL_EXPORTER_OTLP_ENDPOINT: (value) =>
    variable('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT') === undefined
      ? { 'traces.endpoint': `${value.replace(/\/$/, '')}/v1/traces` }
      : {},
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: (value) => ({ 'traces.endpoint': value }),
  OTEL_SERVICE_NAME: (value) => ({ 'traces.service_name': value }),
};

/** Settings from the environment, each with its variable. Throws CONFIG_INVALID. */
export function environmentSettings(): { name: string; value: unknown; variable: Variable }[] {
  return (Object.keys(FROM_ENVIRONMENT) as Variable[]).flatMap((name) => {
    const given = variable(name);
    const settings = given === undefined ? {} : (FROM_ENVIRONMENT[name]?.(given) ?? {});
    return Object.entries(settings).map(([setting, value]) => ({ name: setting, value, variable: name }));
  });
}

function withEnvironment(config: Config): Config {
  const sections: Record<string, Readonly<Record<string, unknown>>> = { ...config };
  for (const { name, value } of environmentSettings()) {
    const [section = '', key = ''] = name.split('.');
    sections[section] = { ...sections[section], [key]: value };
  }
  return sections as Config;
}

/** `host:port`, `[v6]:port`, as the two settings of a section. */
function addressIn(section: string, text: string, name: Variable, example: string): Record<string, unknown> {
  const parsed = addressOf(text);
  if (parsed !== undefined) return { [`${section}.host`]: parsed.host, [`${section}.port`]: parsed.port };
  throw new SvcError('CONFIG_INVALID', `${name} must be host:port, not ${text}`, {
    hint: `for example ${name}=${example}; port 0 means any free port`,
  });
}

function parseLevel(level: string): LogLevel {
  const result = v.safeParse(logLevel, level);
  if (result.success) return result.output;
  throw new SvcError('CONFIG_INVALID', `SVC_LOG_LEVEL must be one of ${LOG_LEVELS.join(', ')}, not ${level}`);
}
