/**
 * The table of commands: names, arguments, flags and examples. The parser, the help, the "did you mean" hints and
 * the test of docs/cli.md read it; each command's file derives its types from it.
 */

/** Kind of names that shell completion offers, where there are no fixed choices. */
export type Completes = 'model' | 'provider' | 'setting' | 'file';

interface FlagFacts {
  readonly summary: string;
  /** One letter: `-m`. */
  readonly short?: string;
  readonly completes?: Completes;
}

/** Flag without a value, off by default. */
interface Switch extends FlagFacts {
  readonly kind: 'switch';
}
interface Choice extends FlagFacts {
  readonly kind: 'choice';
  readonly choices: readonly string[];
  readonly default?: string;
}
interface Valued extends FlagFacts {
  /** `count`: whole number from 0. `duration`: `500ms`, `15s`, `2m`, `1h` or plain seconds, parsed to milliseconds. */
  readonly kind: 'string' | 'count' | 'number' | 'duration';
  /** Placeholder of the value in the help. */
  readonly value: string;
  /** As typed on the command line. */
  readonly default?: string;
}
interface Repeatable extends FlagFacts {
  readonly kind: 'strings';
  readonly value: string;
}
export type Flag = Switch | Choice | Valued | Repeatable;

export interface Argument {
  readonly name: string;
  readonly required: boolean;
  readonly choices?: readonly string[];
  readonly completes?: Completes;
}

export interface Command {
  readonly summary: string;
  /** Paragraphs below the summary in the command's own help. */
  readonly detail?: readonly string[];
  readonly arguments: readonly Argument[];
  readonly flags: Readonly<Record<string, Flag>>;
  readonly examples: readonly string[];
}

const json = { kind: 'switch', summary: 'print JSON' } as const;
const model = [{ name: 'model', required: true, completes: 'model' }] as const;
const provider = [{ name: 'provider', required: true, completes: 'provider' }] as const;
const setting = { name: 'setting', required: true, completes: 'setting' } as const;

const chosenModel = {
  kind: 'string',
  short: 'm',
  value: 'MODEL',
  summary: 'model id or alias, or path to a .gguf file',
  completes: 'model',
} as const;
const system = { kind: 'string', short: 's', value: 'TEXT', summary: 'the system message' } as const;
const sampling = {
  'max-tokens': { kind: 'count', value: 'N', summary: 'stop after N tokens' },
  temperature: { kind: 'number', value: 'X', summary: 'randomness; 0 always picks the most likely token' },
  'top-p': { kind: 'number', value: 'X', summary: 'keep the most likely tokens, up to this total probability' },
  'top-k': { kind: 'count', value: 'N', summary: 'keep the N most likely tokens; 0 keeps all' },
  'min-p': { kind: 'number', value: 'X', summary: 'drop tokens less likely than X times the most likely one' },
  seed: { kind: 'count', value: 'N', summary: 'random seed; the same seed gives the same answer' },
  stop: { kind: 'strings', value: 'TEXT', summary: 'stop before this text; may be given more than once' },
} as const;
const truncate = {
  kind: 'switch',
  summary: 'if the prompt does not fit in the context, drop its oldest turns and report how much',
} as const;
const routing = {
  'no-start': { kind: 'switch', summary: 'fail if no daemon is running, instead of starting one' },
  local: { kind: 'switch', summary: 'use only models on this machine' },
  cloud: { kind: 'switch', summary: 'use the default cloud provider' },
  provider: { kind: 'string', value: 'NAME', summary: 'use only this provider', completes: 'provider' },
} as const;

export const COMMANDS = {
  start: {
    summary: 'Start the daemon in the background',
    detail: ['Returns when the daemon is ready, or reports why it is not. Succeeds if the daemon is already running.'],
    arguments: [],
    flags: {
      timeout: {
        kind: 'duration',
        value: 'TIME',
        default: '15s',
        summary: 'how long to wait for the daemon to become ready',
      },
      json,
    },
    examples: ['svc start', 'svc start --timeout 1m', 'svc start --json'],
  },
  serve: {
    summary: 'Run the daemon in the foreground',
    detail: [
      'Logs to standard error: readable on a terminal, JSON lines otherwise. Ctrl-C drains and stops the daemon.',
    ],
    arguments: [],
    flags: {
      mode: {
        kind: 'choice',
        choices: ['foreground', 'background', 'service'],
        default: 'foreground',
        summary: 'how the daemon is supervised; `svc start` uses background, which logs to the log file',
      },
    },
    examples: ['svc serve', 'SVC_HTTP_ADDR=127.0.0.1:0 svc serve'],
  },
  stop: {
    summary: 'Stop the daemon',
    detail: [
      'Running generations may finish until the timeout; then they are cancelled. Succeeds if no daemon is running.',
    ],
    arguments: [],
    flags: {
      timeout: {
        kind: 'duration',
        value: 'TIME',
        default: '30s',
        summary: 'how long running generations may take to finish',
      },
      force: { kind: 'switch', summary: 'do not wait for running generations' },
      json,
    },
    examples: ['svc stop', 'svc stop --timeout 5s', 'svc stop --force'],
  },
  status: {
    summary: 'Show whether the daemon is running, its addresses and its loaded models',
    arguments: [],
    flags: { json },
    examples: ['svc status', 'svc status --json'],
  },
  health: {
    summary: 'Show the health record of the running daemon',
    arguments: [],
    flags: {
      source: {
        kind: 'choice',
        choices: ['http', 'grpc', 'socket'],
        default: 'http',
        summary: 'which listener to ask; the record is the same',
      },
      watch: { kind: 'switch', short: 'w', summary: 'keep running and print each change' },
      json,
    },
    examples: ['svc health', 'svc health --source grpc --json', 'svc health --watch'],
  },
  doctor: {
    summary: 'Check everything svc needs, and run a real kernel on every device',
    detail: ['Works with and without a daemon.'],
    arguments: [],
    flags: { offline: { kind: 'switch', summary: 'do not contact the providers' }, json },
    examples: ['svc doctor', 'svc doctor --offline --json'],
  },
  logs: {
    summary: "Print the daemon's log",
    detail: ['Reads the log file, so it also works after a crash. Prints JSON lines, or readable text on a terminal.'],
    arguments: [],
    flags: {
      tail: { kind: 'count', value: 'N', default: '200', summary: 'print the last N lines' },
      follow: { kind: 'switch', short: 'f', summary: 'keep printing new lines' },
      level: {
        kind: 'choice',
        choices: ['trace', 'debug', 'info', 'warn', 'error', 'fatal'],
        summary: 'only lines at this level and above',
      },
    },
    examples: ['svc logs', 'svc logs --tail 50 --level warn', 'svc logs -f'],
  },
  version: {
    summary: 'Show the versions of svc, Node and the engine',
    arguments: [],
    flags: { json },
    examples: ['svc version', 'svc version --json'],
  },
  run: {
    summary: 'Answer one prompt',
    detail: [
      'Reads standard input if it is a pipe or a file, or if the prompt is `-`. With a prompt, the input is appended to it after a blank line; a pipe that stays silent is then ignored, unless `-` follows the prompt.',
      'Starts the daemon if none is running. Ctrl-C stops the generation in the engine.',
    ],
    arguments: [
      { name: 'prompt', required: false },
      { name: '-', required: false },
    ],
    flags: {
      model: chosenModel,
      system,
      json: { kind: 'switch', summary: 'print the whole answer as JSON, with route, usage and timings' },
      'no-stream': { kind: 'switch', summary: 'print the answer only when it is complete' },
      ...sampling,
      truncate,
      schema: {
        kind: 'string',
        value: 'FILE',
        summary: 'constrain the answer to JSON that is valid against this JSON Schema',
        completes: 'file',
      },
      grammar: {
        kind: 'string',
        value: 'FILE',
        summary: 'constrain the answer to this grammar (GBNF)',
        completes: 'file',
      },
      timeout: { kind: 'duration', value: 'TIME', summary: 'give up after this time' },
      stats: { kind: 'switch', summary: 'print token counts and speed on standard error' },
      image: {
        kind: 'strings',
        value: 'FILE',
        summary: 'send a PNG, JPEG, GIF or WebP file to the model; may be given more than once',
        completes: 'file',
      },
      ...routing,
    },
    examples: [
      'svc run "Why is the sky blue?"',
      'svc run -m ./model.gguf --temperature 0 "Count to ten"',
      'cat report.txt | svc run "Summarise this"',
      'slow-report | svc run "Summarise this" -',
      'svc run --json --seed 7 --max-tokens 64 "Hello"',
      'svc run --provider openai --image photo.jpg "What is this?"',
      'svc run --schema person.schema.json "Invent a person"',
    ],
  },
  chat: {
    summary: 'Chat with a model, turn by turn',
    detail: [
      'On a terminal: Ctrl-C stops the answer, Ctrl-D or /exit leaves, /help lists the commands. From a pipe, every line is a turn.',
      'The conversation is kept in memory only.',
    ],
    arguments: [],
    flags: { model: chosenModel, system, ...sampling, truncate, ...routing },
    examples: ['svc chat', 'svc chat -m qwen -s "Answer briefly"', "printf 'Hello\\nAnd again\\n' | svc chat"],
  },
  ps: {
    summary: 'Show the models in memory and their requests',
    arguments: [],
    flags: { json },
    examples: ['svc ps', 'svc ps --json'],
  },
  usage: {
    summary: 'Show requests and tokens by day, provider and model',
    arguments: [],
    flags: {
      days: { kind: 'count', value: 'N', default: '30', summary: 'the last N days, in UTC' },
      'by-key': { kind: 'switch', summary: 'group by API key, too' },
      json,
    },
    examples: ['svc usage', 'svc usage --days 1', 'svc usage --by-key', 'svc usage --json'],
  },
  bench: {
    summary: 'Measure how fast a model answers',
    detail: [
      'Sends one prompt at a time through the running daemon: a warm-up, then several runs. Prints their median, minimum and maximum.',
    ],
    arguments: [],
    flags: {
      model: chosenModel,
      runs: { kind: 'count', value: 'N', default: '5', summary: 'number of measured runs' },
      'prompt-tokens': { kind: 'count', value: 'N', default: '512', summary: 'approximate prompt length in tokens' },
      'max-tokens': { kind: 'count', value: 'N', default: '128', summary: 'maximum answer length in tokens' },
      json,
    },
    examples: ['svc bench', 'svc bench -m qwen --prompt-tokens 4000 --runs 3', 'svc bench --json'],
  },
  'model list': {
    summary: 'List the models on this machine',
    arguments: [],
    flags: { json },
    examples: ['svc model list', 'svc model list --json'],
  },
  'model show': {
    summary: 'Show one model and the memory that it needs',
    detail: [
      "The memory is estimated without loading the model, at the daemon's context length and at several others.",
    ],
    arguments: model,
    flags: { json },
    examples: ['svc model show builtin', 'svc model show builtin --json'],
  },
  'model add': {
    summary: 'Check a GGUF file and register it as a model',
    detail: ['The file stays in its place unless --copy copies it into the store.'],
    arguments: [{ name: 'file', required: true, completes: 'file' }],
    flags: {
      name: { kind: 'string', value: 'ID', summary: 'model id; otherwise made from the file name' },
      copy: { kind: 'switch', summary: 'copy the file into the store' },
      json,
    },
    examples: ['svc model add ./qwen3-4b-q4_k_m.gguf', 'svc model add --copy --name qwen ./qwen3-4b-q4_k_m.gguf'],
  },
  'model pull': {
    summary: 'Download a model, verify it and add it',
    detail: [
      'MODEL is a short name from `svc model search`, hf:owner/repo[:QUANTIZATION][@revision], ollama:name[:tag], or an https URL with --sha256. Ctrl-C pauses the download; the same command resumes it, also after a crash.',
    ],
    arguments: [{ name: 'model', required: true }],
    flags: {
      sha256: { kind: 'string', value: 'HEXADECIMAL', summary: 'expected SHA-256 digest of the file at a URL' },
      json: { kind: 'switch', summary: 'print progress and the result as JSON lines' },
    },
    examples: [
      'svc model pull qwen3-4b',
      'svc model pull hf:Qwen/Qwen3-4B-GGUF:Q8_0',
      'svc model pull ollama:qwen3:4b',
    ],
  },
  'model search': {
    summary: 'Search for models to pull',
    detail: ['Searches the catalogue that comes with svc and, if words are given, the Hugging Face hub.'],
    arguments: [{ name: 'words', required: false }],
    flags: { local: { kind: 'switch', summary: 'do not search the hub' }, json },
    examples: ['svc model search', 'svc model search code', 'svc model search "mistral instruct" --json'],
  },
  'model rm': {
    summary: 'Remove a model',
    detail: ['A file in the store is deleted. A file that was registered in its own place stays there.'],
    arguments: model,
    flags: { yes: { kind: 'switch', short: 'y', summary: 'do not ask before deleting a file' }, json },
    examples: ['svc model rm qwen', 'svc model rm --yes qwen'],
  },
  'model verify': {
    summary: 'Check model files against their SHA-256 digests',
    detail: [
      'Without a model, checks all models and removes what killed commands left in the store. Files that belong to a model are never deleted.',
    ],
    arguments: [{ name: 'model', required: false, completes: 'model' }],
    flags: {
      all: { kind: 'switch', summary: 'check all models, the same as without a model' },
      json: { kind: 'switch', summary: 'print progress and the result as JSON lines' },
    },
    examples: ['svc model verify', 'svc model verify qwen', 'svc model verify --all --json'],
  },
  'model quantize': {
    summary: 'Make a smaller, faster copy of a model',
    detail: [
      'TYPE is a quantisation such as Q8_0, Q6_K or Q4_K_M; the best source is a model in F16 or BF16. The copy is added to the store under its own id; the source model is not changed. Ctrl-C leaves nothing behind.',
    ],
    arguments: [...model, { name: 'type', required: true }],
    flags: {
      name: { kind: 'string', value: 'ID', summary: "id of the copy; otherwise made from the model's id and the type" },
      'allow-requantize': {
        kind: 'switch',
        summary: 'accept a source that is already quantised, at a loss of quality',
      },
      json: { kind: 'switch', summary: 'print progress and the result as JSON lines' },
    },
    examples: ['svc model quantize qwen-f16 Q4_K_M', 'svc model quantize qwen-f16 q8_0 --name qwen-q8 --json'],
  },
  'model default': {
    summary: 'Set the default model, used when none is named',
    arguments: model,
    flags: { json },
    examples: ['svc model default qwen'],
  },
  'model load': {
    summary: 'Load a model into memory now',
    detail: ['It stays loaded until it is unloaded or its memory is needed for another model.'],
    arguments: model,
    flags: {
      context: { kind: 'count', value: 'N', summary: 'minimum context length in tokens' },
      'keep-alive': { kind: 'duration', value: 'TIME', summary: 'unload it when it was not used for this long' },
      pin: { kind: 'switch', summary: 'never unload it to make room for other models' },
      json: { kind: 'switch', summary: 'print progress and the result as JSON lines' },
    },
    examples: ['svc model load qwen', 'svc model load qwen --pin', 'svc model load qwen --context 32768 --json'],
  },
  'model unload': {
    summary: 'Unload a model and free all its memory',
    arguments: model,
    flags: { json },
    examples: ['svc model unload qwen'],
  },
  'key add': {
    summary: 'Create an API key',
    detail: [
      'The key is printed only once; svc keeps only its digest. A running daemon accepts it at once.',
      'As soon as one key exists, every client that connects over TCP needs one. Commands that use the control socket do not.',
    ],
    arguments: [{ name: 'name', required: true }],
    flags: {
      scope: {
        kind: 'choice',
        choices: ['local', 'inference', 'admin'],
        default: 'inference',
        summary: 'local: models on this machine only; inference: also providers; admin: everything',
      },
      json,
    },
    examples: ['svc key add laptop', 'svc key add guest --scope local', 'svc key add --scope admin deploy --json'],
  },
  'key list': {
    summary: 'List the API keys',
    arguments: [],
    flags: { json },
    examples: ['svc key list', 'svc key list --json'],
  },
  'key rm': {
    summary: 'Remove an API key',
    detail: ['Requests with this key are refused from then on, also by a running daemon.'],
    arguments: [{ name: 'name', required: true }],
    flags: { json },
    examples: ['svc key rm laptop'],
  },
  'provider list': {
    summary: 'List what can answer a prompt: this machine and the providers',
    detail: ['This machine comes first, then configured providers and those whose key is in the environment.'],
    arguments: [],
    flags: {
      all: { kind: 'switch', summary: 'also list known providers that are not configured' },
      probe: {
        kind: 'switch',
        summary: 'look for servers on this machine, at the usual addresses of Ollama and others',
      },
      json,
    },
    examples: ['svc provider list', 'svc provider list --all', 'svc provider list --probe --json'],
  },
  'provider set': {
    summary: 'Configure a provider',
    detail: [
      'A provider that svc knows (`svc provider list --all`) needs only its key; on a terminal, svc asks for it. Settings that are not given again keep their values. A running daemon applies the change at once.',
      'A key is never an argument: type it, pipe it to standard input, or keep it in an environment variable of the daemon.',
    ],
    arguments: provider,
    flags: {
      kind: {
        kind: 'choice',
        choices: ['openai', 'anthropic', 'gemini', 'openai_compatible'],
        summary: 'API of a provider that svc does not know',
      },
      'base-url': { kind: 'strings', value: 'URL', summary: 'base URL; several make a cluster' },
      'api-key-env': { kind: 'string', value: 'VAR', summary: 'environment variable that holds the key' },
      'api-key-stdin': { kind: 'switch', summary: 'read the key from standard input and store it' },
      'default-model': { kind: 'string', value: 'MODEL', summary: 'model to use when none is named' },
      default: { kind: 'switch', summary: 'make it the default provider for --cloud' },
      json,
    },
    examples: [
      'svc provider set openai',
      'cat key.txt | svc provider set anthropic --api-key-stdin --default',
      'svc provider set groq --api-key-env GROQ_API_KEY --default-model openai/gpt-oss-120b',
      'svc provider set rack --base-url http://10.0.0.5:8000/v1 --base-url http://10.0.0.6:8000/v1',
    ],
  },
  'provider unset': {
    summary: 'Remove a provider from the config and delete its stored key',
    arguments: provider,
    flags: { json },
    examples: ['svc provider unset openai'],
  },
  'provider test': {
    summary: 'Test a provider: its key, its address, the connection and a short answer',
    detail: ["Runs in the daemon if one is running, with the daemon's environment. The answer costs some tokens."],
    arguments: provider,
    flags: { json },
    examples: ['svc provider test openai', 'svc provider test openai --json'],
  },
  'provider models': {
    summary: 'List the models that a provider offers now',
    arguments: provider,
    flags: { json },
    examples: ['svc provider models openai', 'svc provider models ollama --json'],
  },
  'config show': {
    summary: 'Show every setting',
    arguments: [],
    flags: { origin: { kind: 'switch', summary: 'also show where each value comes from' }, json },
    examples: ['svc config show', 'svc config show --origin', 'svc config show --json'],
  },
  'config get': {
    summary: 'Print the value of a setting',
    arguments: [setting],
    flags: { json },
    examples: ['svc config get http.port', 'svc config get engine.threads --json'],
  },
  'config set': {
    summary: 'Write a setting to the config file',
    detail: ['The value is checked before anything is written; comments in the file are kept.'],
    arguments: [setting, { name: 'value', required: true }],
    flags: { json },
    examples: [
      'svc config set http.port 8000',
      'svc config set log.level debug',
      'svc config set models.dir /srv/models',
    ],
  },
  'config unset': {
    summary: 'Remove a setting from the config file, so that its default applies',
    arguments: [setting],
    flags: { json },
    examples: ['svc config unset http.port'],
  },
  'config validate': {
    summary: 'Check the config file and the environment',
    arguments: [],
    flags: { json },
    examples: ['svc config validate', 'SVC_CONFIG=/tmp/new.json svc config validate', 'svc config validate --json'],
  },
  'config path': {
    summary: 'Print the path of the config file',
    arguments: [],
    flags: { json },
    examples: ['svc config path', 'svc config path --json'],
  },
  completion: {
    summary: 'Print the completion script for a shell',
    detail: [
      'bash: `svc completion bash > ~/.local/share/bash-completion/completions/svc`. zsh: save it as `_svc` in a directory of $fpath. fish: `svc completion fish > ~/.config/fish/completions/svc.fish`.',
    ],
    arguments: [{ name: 'shell', required: true, choices: ['bash', 'zsh', 'fish'] }],
    flags: {},
    examples: ['svc completion bash', 'svc completion zsh', 'svc completion fish'],
  },
  'service install': {
    summary: 'Run the daemon as a service of this user, now and at every login',
    detail: [
      'Uses systemd (user units) on Linux and launchd on macOS. Run it again after an update or a change of address.',
    ],
    arguments: [],
    flags: { json },
    examples: ['svc service install'],
  },
  'service uninstall': {
    summary: 'Stop the service and remove it',
    detail: ['Models, configuration and log are kept. Succeeds if no service is installed.'],
    arguments: [],
    flags: { json },
    examples: ['svc service uninstall'],
  },
  'service status': {
    summary: 'Show whether the service is installed and running',
    arguments: [],
    flags: { json },
    examples: ['svc service status', 'svc service status --json'],
  },
} as const satisfies Record<string, Command>;

export type CommandName = keyof typeof COMMANDS;

/** Titles of the command groups, for example for `svc model --help`. */
export const GROUPS = {
  model: 'Manage the models on this machine',
  key: 'Manage API keys for clients that connect over TCP',
  provider: 'Manage cloud providers and your own servers',
  config: 'Read and change settings',
  service: 'Run the daemon as a service of this user',
} as const satisfies Record<string, string>;

type Given<F, T> = F extends { readonly default: string } ? T : T | undefined;
type FlagValue<F> = F extends { readonly kind: 'switch' }
  ? boolean
  : F extends { readonly kind: 'strings' }
    ? readonly string[]
    : F extends { readonly kind: 'choice'; readonly choices: readonly (infer C)[] }
      ? Given<F, C>
      : F extends { readonly kind: 'string' }
        ? Given<F, string>
        : Given<F, number>;

export type Flags<Name extends CommandName> = {
  readonly [F in keyof (typeof COMMANDS)[Name]['flags']]: FlagValue<(typeof COMMANDS)[Name]['flags'][F]>;
};
type ArgumentValue<A> = A extends { readonly choices: readonly (infer C)[] } ? C : string;
export type Arguments<Name extends CommandName> = {
  readonly [A in (typeof COMMANDS)[Name]['arguments'][number] as A['name']]: A['required'] extends true
    ? ArgumentValue<A>
    : ArgumentValue<A> | undefined;
};

/** Type of the `run` that each command's file exports. Resolves with the exit code. */
export type Run<Name extends CommandName> = (flags: Flags<Name>, args: Arguments<Name>) => Promise<number>;
