/**
 * Every command of svc: its name, arguments, flags and examples. The parser, the help, the "did you
 * mean" and the test of docs/cli.md read this table; a command's own file reads its types from it.
 */

/** What the shell offers in a place, beyond the values to choose from. */
export type Completes = 'model' | 'provider' | 'setting' | 'file';

interface FlagFacts {
  readonly summary: string;
  /** One letter: `-m`. */
  readonly short?: string;
  readonly completes?: Completes;
}

/** A flag without a value. Off unless given. */
interface Switch extends FlagFacts {
  readonly kind: 'switch';
}
interface Choice extends FlagFacts {
  readonly kind: 'choice';
  readonly choices: readonly string[];
  readonly default?: string;
}
interface Valued extends FlagFacts {
  /** `count` is a whole number from 0; `duration` reads `500ms`, `15s`, `2m`, `1h` and plain seconds, and gives milliseconds. */
  readonly kind: 'string' | 'count' | 'number' | 'duration';
  /** What stands for the value in the help. */
  readonly value: string;
  /** As a person would write it. */
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
  summary: 'a model by id or alias, or a path to a .gguf file',
  completes: 'model',
} as const;
const system = { kind: 'string', short: 's', value: 'TEXT', summary: 'the system message' } as const;
const sampling = {
  'max-tokens': { kind: 'count', value: 'N', summary: 'stop after so many tokens' },
  temperature: { kind: 'number', value: 'X', summary: 'randomness; 0 always takes the likeliest token' },
  'top-p': { kind: 'number', value: 'X', summary: 'keep the likeliest tokens that make up this probability' },
  'top-k': { kind: 'count', value: 'N', summary: 'keep the N likeliest tokens; 0 keeps all' },
  'min-p': { kind: 'number', value: 'X', summary: 'drop tokens below this share of the likeliest one' },
  seed: { kind: 'count', value: 'N', summary: 'the same seed gives the same answer' },
  stop: { kind: 'strings', value: 'TEXT', summary: 'end before this text; may be given more than once' },
} as const;
const truncate = {
  kind: 'switch',
  summary: 'leave out what does not fit in the context, the oldest turns first, and tell how much',
} as const;
const routing = {
  'no-start': { kind: 'switch', summary: 'fail when there is no daemon instead of starting one' },
  local: { kind: 'switch', summary: 'use a model on this machine and nothing else' },
  cloud: { kind: 'switch', summary: 'use the default cloud provider' },
  provider: { kind: 'string', value: 'NAME', summary: 'use this provider and no other', completes: 'provider' },
} as const;

export const COMMANDS = {
  start: {
    summary: 'Start the daemon in the background',
    detail: ['Returns when the daemon is ready, or says why it is not. A daemon that runs already is a success.'],
    arguments: [],
    flags: {
      timeout: { kind: 'duration', value: 'TIME', default: '15s', summary: 'how long to wait until it is ready' },
      json,
    },
    examples: ['svc start', 'svc start --timeout 1m', 'svc start --json'],
  },
  serve: {
    summary: 'Run the daemon in the foreground',
    detail: ['Logs to standard error: readable on a terminal, JSON lines otherwise. Ctrl-C drains and stops it.'],
    arguments: [],
    flags: {
      mode: {
        kind: 'choice',
        choices: ['foreground', 'background', 'service'],
        default: 'foreground',
        summary: 'who watches over it; `svc start` uses background, which logs to the log file',
      },
    },
    examples: ['svc serve', 'SVC_HTTP_ADDR=127.0.0.1:0 svc serve'],
  },
  stop: {
    summary: 'Stop the daemon',
    detail: ['Running generations may end first; after the timeout the daemon is killed. No daemon is a success.'],
    arguments: [],
    flags: {
      timeout: {
        kind: 'duration',
        value: 'TIME',
        default: '30s',
        summary: 'how long running generations may still take',
      },
      force: { kind: 'switch', summary: 'do not wait for running generations' },
      json,
    },
    examples: ['svc stop', 'svc stop --timeout 5s', 'svc stop --force'],
  },
  status: {
    summary: 'Show whether the daemon runs, where, and what it has loaded',
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
      watch: { kind: 'switch', short: 'w', summary: 'go on and print what changes' },
      json,
    },
    examples: ['svc health', 'svc health --source grpc --json', 'svc health --watch'],
  },
  doctor: {
    summary: 'Check everything svc needs, and run a real kernel on every device',
    detail: ['Works with and without a daemon.'],
    arguments: [],
    flags: { offline: { kind: 'switch', summary: 'do not ask whether the providers answer' }, json },
    examples: ['svc doctor', 'svc doctor --offline --json'],
  },
  logs: {
    summary: "Print the daemon's log",
    detail: ['Reads the file, so that it works after a crash too. JSON lines, readable on a terminal.'],
    arguments: [],
    flags: {
      tail: { kind: 'count', value: 'N', default: '200', summary: 'how many of the last lines' },
      follow: { kind: 'switch', short: 'f', summary: 'keep printing what is written' },
      level: {
        kind: 'choice',
        choices: ['trace', 'debug', 'info', 'warn', 'error', 'fatal'],
        summary: 'only lines of this level and above',
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
      'A pipe, or `-` as the prompt, reads standard input; with a prompt as well, the input follows it after a blank line. With a prompt, a pipe that stays silent is not waited for, unless `-` follows the prompt.',
      'Starts the daemon when there is none. Ctrl-C stops the generation in the engine.',
    ],
    arguments: [
      { name: 'prompt', required: false },
      { name: '-', required: false },
    ],
    flags: {
      model: chosenModel,
      system,
      json: { kind: 'switch', summary: 'print the whole answer as JSON, with route, usage and timings' },
      'no-stream': { kind: 'switch', summary: 'print the answer when it is complete' },
      ...sampling,
      truncate,
      schema: {
        kind: 'string',
        value: 'FILE',
        summary: 'the answer is JSON that is valid against this JSON Schema',
        completes: 'file',
      },
      grammar: { kind: 'string', value: 'FILE', summary: 'the answer follows this grammar (GBNF)', completes: 'file' },
      timeout: { kind: 'duration', value: 'TIME', summary: 'give up after this time' },
      stats: { kind: 'switch', summary: 'print token counts and speed on standard error' },
      image: {
        kind: 'strings',
        value: 'FILE',
        summary: 'show the model a PNG, JPEG, GIF or WebP file; may be given more than once',
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
    summary: 'Talk with a model, turn by turn',
    detail: [
      'On a terminal: Ctrl-C stops the answer, Ctrl-D or /exit leaves, /help shows the rest. From a pipe every line is a turn.',
      'The conversation is kept in memory only.',
    ],
    arguments: [],
    flags: { model: chosenModel, system, ...sampling, truncate, ...routing },
    examples: ['svc chat', 'svc chat -m qwen -s "Answer briefly"', "printf 'Hello\\nAnd again\\n' | svc chat"],
  },
  ps: {
    summary: 'Show the models in memory and what they do',
    arguments: [],
    flags: { json },
    examples: ['svc ps', 'svc ps --json'],
  },
  usage: {
    summary: 'Show what was asked, by day, provider and model',
    arguments: [],
    flags: {
      days: { kind: 'count', value: 'N', default: '30', summary: 'the last N days, in UTC' },
      'by-key': { kind: 'switch', summary: 'also by API key' },
      json,
    },
    examples: ['svc usage', 'svc usage --days 1', 'svc usage --by-key', 'svc usage --json'],
  },
  bench: {
    summary: 'Measure how fast a model answers',
    detail: [
      'One prompt at a time through the running daemon: a warm-up, then the median, least and most of some runs.',
    ],
    arguments: [],
    flags: {
      model: chosenModel,
      runs: { kind: 'count', value: 'N', default: '5', summary: 'how many runs are measured' },
      'prompt-tokens': { kind: 'count', value: 'N', default: '512', summary: 'about how long the prompts are' },
      'max-tokens': { kind: 'count', value: 'N', default: '128', summary: 'how long the answers may be' },
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
    summary: 'Show one model, and the memory that it takes',
    detail: ['The memory is found out without loading the model, at the context of the daemon and at others.'],
    arguments: model,
    flags: { json },
    examples: ['svc model show builtin', 'svc model show builtin --json'],
  },
  'model add': {
    summary: 'Register a GGUF file, after checking it',
    detail: ['The file stays where it lies unless --copy brings it into the store.'],
    arguments: [{ name: 'file', required: true, completes: 'file' }],
    flags: {
      name: { kind: 'string', value: 'ID', summary: 'its id; otherwise made from the file name' },
      copy: { kind: 'switch', summary: 'copy the file into the store' },
      json,
    },
    examples: ['svc model add ./qwen3-4b-q4_k_m.gguf', 'svc model add --copy --name qwen ./qwen3-4b-q4_k_m.gguf'],
  },
  'model pull': {
    summary: 'Fetch a model, check it and add it',
    detail: [
      'By a short name of `svc model search`, hf:owner/repo[:QUANTIZATION][@revision], ollama:name[:tag], or an https URL with --sha256. Ctrl-C pauses; the same command goes on from there, whatever ended it.',
    ],
    arguments: [{ name: 'model', required: true }],
    flags: {
      sha256: { kind: 'string', value: 'HEXADECIMAL', summary: 'what the file at a URL must be' },
      json: { kind: 'switch', summary: 'print progress and the result as JSON lines' },
    },
    examples: [
      'svc model pull qwen3-4b',
      'svc model pull hf:Qwen/Qwen3-4B-GGUF:Q8_0',
      'svc model pull ollama:qwen3:4b',
    ],
  },
  'model search': {
    summary: 'Look for models that can be pulled',
    detail: ['In the catalogue that comes with svc, and with words also on the hub.'],
    arguments: [{ name: 'words', required: false }],
    flags: { local: { kind: 'switch', summary: 'do not ask the hub' }, json },
    examples: ['svc model search', 'svc model search code', 'svc model search "mistral instruct" --json'],
  },
  'model rm': {
    summary: 'Remove a model',
    detail: ['A file that was registered where it lies stays there; a copy in the store is deleted.'],
    arguments: model,
    flags: { yes: { kind: 'switch', short: 'y', summary: 'delete a copy without asking' }, json },
    examples: ['svc model rm qwen', 'svc model rm --yes qwen'],
  },
  'model verify': {
    summary: 'Read models whole and hold them against their digests',
    detail: [
      'Without a model: all of them, and what killed commands have left in the store is cleared away. Nothing that a model stands on is ever deleted.',
    ],
    arguments: [{ name: 'model', required: false, completes: 'model' }],
    flags: {
      all: { kind: 'switch', summary: 'all models, as without a name' },
      json: { kind: 'switch', summary: 'print progress and the result as JSON lines' },
    },
    examples: ['svc model verify', 'svc model verify qwen', 'svc model verify --all --json'],
  },
  'model quantize': {
    summary: 'Make a smaller, faster copy of a model',
    detail: [
      'TYPE is a quantisation such as Q8_0, Q6_K or Q4_K_M, and the best source for it is F16 or BF16. The copy comes into the store under a name of its own; the model stays as it is. Ctrl-C leaves nothing behind.',
    ],
    arguments: [...model, { name: 'type', required: true }],
    flags: {
      name: { kind: 'string', value: 'ID', summary: "the copy's id; otherwise made from the model's and the type" },
      'allow-requantize': { kind: 'switch', summary: 'although the model is quantised already, which costs quality' },
      json: { kind: 'switch', summary: 'print progress and the result as JSON lines' },
    },
    examples: ['svc model quantize qwen-f16 Q4_K_M', 'svc model quantize qwen-f16 q8_0 --name qwen-q8 --json'],
  },
  'model default': {
    summary: 'Make a model the one that is used when none is named',
    arguments: model,
    flags: { json },
    examples: ['svc model default qwen'],
  },
  'model load': {
    summary: 'Load a model into memory now',
    detail: ['It stays until it is unloaded, or its memory is needed for another.'],
    arguments: model,
    flags: {
      context: { kind: 'count', value: 'N', summary: 'tokens that its context has at least' },
      'keep-alive': { kind: 'duration', value: 'TIME', summary: 'unload it so long after its last use' },
      pin: { kind: 'switch', summary: 'keep it, whoever needs its memory' },
      json: { kind: 'switch', summary: 'print progress and the result as JSON lines' },
    },
    examples: ['svc model load qwen', 'svc model load qwen --pin', 'svc model load qwen --context 32768 --json'],
  },
  'model unload': {
    summary: 'Unload a model; every byte it held is free again',
    arguments: model,
    flags: { json },
    examples: ['svc model unload qwen'],
  },
  'key add': {
    summary: 'Make an API key',
    detail: [
      'It is shown this once; only its digest is kept. It counts at once, also for a daemon that runs.',
      'Once there is a key, every program that comes over TCP needs one. The commands of svc itself do not.',
    ],
    arguments: [{ name: 'name', required: true }],
    flags: {
      scope: {
        kind: 'choice',
        choices: ['local', 'inference', 'admin'],
        default: 'inference',
        summary: 'local: models of this machine only; inference: providers too; admin: everything',
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
    detail: ['Whoever holds it is refused from then on, also by a daemon that runs.'],
    arguments: [{ name: 'name', required: true }],
    flags: { json },
    examples: ['svc key rm laptop'],
  },
  'provider list': {
    summary: 'List what can answer a prompt',
    detail: ['This machine first, then the providers that are configured, and those whose key is in the environment.'],
    arguments: [],
    flags: {
      all: { kind: 'switch', summary: 'also those that svc knows and nobody has configured' },
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
      'One that svc knows (`svc provider list --all`) needs nothing but its key, which is asked for on a terminal. What is set before stays unless it is given anew. A running daemon takes it up at once.',
      'A key is never an argument: it is typed, comes on standard input, or stays in an environment variable of the daemon.',
    ],
    arguments: provider,
    flags: {
      kind: {
        kind: 'choice',
        choices: ['openai', 'anthropic', 'gemini', 'openai_compatible'],
        summary: 'what it speaks, where svc does not know it',
      },
      'base-url': { kind: 'strings', value: 'URL', summary: 'where it is; more than once makes a cluster' },
      'api-key-env': { kind: 'string', value: 'VAR', summary: 'the environment variable that holds the key' },
      'api-key-stdin': { kind: 'switch', summary: 'read the key from standard input and keep it' },
      'default-model': { kind: 'string', value: 'MODEL', summary: 'the model that is used when none is named' },
      default: { kind: 'switch', summary: 'make it the one that --cloud means' },
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
    summary: 'Take a provider out of the config, and forget its key',
    arguments: provider,
    flags: { json },
    examples: ['svc provider unset openai'],
  },
  'provider test': {
    summary: 'Try a provider: its key, its address, the connection, and a short answer',
    detail: [
      'Asked through the daemon when one runs, for its environment is what counts then. The answer costs some tokens.',
    ],
    arguments: provider,
    flags: { json },
    examples: ['svc provider test openai', 'svc provider test openai --json'],
  },
  'provider models': {
    summary: 'List the models of a provider, as it tells them now',
    arguments: provider,
    flags: { json },
    examples: ['svc provider models openai', 'svc provider models ollama --json'],
  },
  'config show': {
    summary: 'Show every setting',
    arguments: [],
    flags: { origin: { kind: 'switch', summary: 'also where each value comes from' }, json },
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
    detail: ['The value is checked before anything is written; comments stay where they are.'],
    arguments: [setting, { name: 'value', required: true }],
    flags: { json },
    examples: [
      'svc config set http.port 8000',
      'svc config set log.level debug',
      'svc config set models.dir /srv/models',
    ],
  },
  'config unset': {
    summary: 'Take a setting out of the config file, so that its default holds',
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
    summary: 'Print the completion script of a shell',
    detail: [
      'bash: `svc completion bash > ~/.local/share/bash-completion/completions/svc`. zsh: into a file `_svc` in a directory of $fpath. fish: `svc completion fish > ~/.config/fish/completions/svc.fish`.',
    ],
    arguments: [{ name: 'shell', required: true, choices: ['bash', 'zsh', 'fish'] }],
    flags: {},
    examples: ['svc completion bash', 'svc completion zsh', 'svc completion fish'],
  },
  'service install': {
    summary: 'Let the service manager of this user run the daemon, now and at every login',
    detail: ['systemd (user units) on Linux, launchd on macOS. Again after an update or a change of address.'],
    arguments: [],
    flags: { json },
    examples: ['svc service install'],
  },
  'service uninstall': {
    summary: 'Stop the service and remove it',
    detail: ['Models, configuration and log stay. Not installed is a success.'],
    arguments: [],
    flags: { json },
    examples: ['svc service uninstall'],
  },
  'service status': {
    summary: 'Show whether svc is installed as a service, and runs as one',
    arguments: [],
    flags: { json },
    examples: ['svc service status', 'svc service status --json'],
  },
} as const satisfies Record<string, Command>;

export type CommandName = keyof typeof COMMANDS;

/** Groups of commands, for the help of `svc model`. */
export const GROUPS = {
  model: 'The models on this machine',
  key: 'Who gets in over TCP',
  provider: 'What can answer a prompt',
  config: 'The settings of the daemon',
  service: 'svc as a service of this user',
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

/** A command as its file exports it, under the name `run`. Resolves with the exit code. */
export type Run<Name extends CommandName> = (flags: Flags<Name>, args: Arguments<Name>) => Promise<number>;
