/**
 * The agents that `svc launch` starts, with what points each of them at svc: variables that it reads, or arguments. No
 * file is written, so an agent that is started without svc is as it was. Keys are only in variables, because other
 * users can read arguments.
 */

/** What an agent connects to. */
export interface Connection {
  /** `http://HOST:PORT` */
  readonly url: string;
  /** API key, or any word if svc needs none: most agents refuse to start without a key. */
  readonly key: string;
  readonly model: string;
  /** Longest context of a request, in tokens. null: not known. */
  readonly contextLength: number | null;
}

export interface Settings {
  /** Arguments before those of the user. */
  readonly args: readonly string[];
  /** undefined: removed, because it would point the agent elsewhere. */
  readonly variables: Readonly<Record<string, string | undefined>>;
}

export interface Agent {
  readonly title: string;
  /** Name of the program, without the ending that it has on Windows. */
  readonly program: string;
  /** Command that installs it. */
  readonly install: string;
  /**
   * Minimum context length in tokens: the agent's own instructions and tools take about 10,000, and it summarises the
   * conversation while some are still free.
   */
  readonly leastContext: number;
  settings(connection: Connection): Settings;
}

/** Longest answer for which agents keep tokens free; they do so for twice as many by themselves. */
const MOST_OUTPUT = 16_384;
/** Claude Code takes no smaller window for this setting. */
const LEAST_COMPACT_WINDOW = 100_000;

export const AGENTS = {
  claude: {
    title: 'Claude Code',
    program: 'claude',
    install: 'npm install -g @anthropic-ai/claude-code',
    leastContext: 65_536,
    settings: claude,
  },
  codex: {
    title: 'Codex',
    program: 'codex',
    install: 'npm install -g @openai/codex',
    leastContext: 32_768,
    settings: codex,
  },
  copilot: {
    title: 'GitHub Copilot CLI',
    program: 'copilot',
    install: 'npm install -g @github/copilot',
    leastContext: 32_768,
    settings: copilot,
  },
  opencode: {
    title: 'opencode',
    program: 'opencode',
    install: 'npm install -g opencode-ai',
    leastContext: 32_768,
    settings: opencode,
  },
} as const satisfies Record<string, Agent>;

export type AgentName = keyof typeof AGENTS;
export const AGENT_NAMES = ['claude', 'codex', 'copilot', 'opencode'] as const satisfies readonly AgentName[];

function claude({ url, key, model, contextLength }: Connection): Settings {
  // Its names for models of several sizes: all are this model, also for its small tasks.
  const sizes = ['OPUS', 'SONNET', 'HAIKU', 'FABLE'];
  const elsewhere = ['ANTHROPIC_API_KEY', ...['BEDROCK', 'VERTEX', 'FOUNDRY'].map((name) => `CLAUDE_CODE_USE_${name}`)];
  return {
    // WebSearch runs on Anthropic's servers. One argument, with `=`: as two, the flag would also consume the user's
    // arguments.
    args: ['--disallowedTools=WebSearch'],
    variables: {
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_AUTH_TOKEN: key,
      ANTHROPIC_MODEL: model,
      ...Object.fromEntries(sizes.map((size): [string, string] => [`ANTHROPIC_DEFAULT_${size}_MODEL`, model])),
      ANTHROPIC_SMALL_FAST_MODEL: model,
      CLAUDE_CODE_SUBAGENT_MODEL: model,
      ...numbers(contextLength, (length) => ({
        CLAUDE_CODE_MAX_CONTEXT_TOKENS: length,
        CLAUDE_CODE_MAX_OUTPUT_TOKENS: outputOf(length),
        ...(length < LEAST_COMPACT_WINDOW ? {} : { CLAUDE_CODE_AUTO_COMPACT_WINDOW: length }),
      })),
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      ...removed(elsewhere),
    },
  };
}

function codex({ url, key, model, contextLength }: Connection): Settings {
  const settings = {
    model,
    model_provider: 'svc',
    'model_providers.svc.name': 'svc',
    'model_providers.svc.base_url': `${url}/v1`,
    'model_providers.svc.wire_api': 'responses',
    'model_providers.svc.env_key': 'SVC_API_KEY',
    ...(contextLength === null ? {} : { model_context_window: contextLength }),
  };
  // The values are TOML, whose strings and numbers are written as in JSON.
  const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${JSON.stringify(value)}`]);
  return { args, variables: { SVC_API_KEY: key } };
}

function copilot({ url, key, model, contextLength }: Connection): Settings {
  const elsewhere = ['API_KEY_COMMAND', 'BEARER_TOKEN', 'HEADERS', 'MODEL_ID', 'TRANSPORT', 'WIRE_MODEL'];
  return {
    args: [],
    variables: {
      COPILOT_PROVIDER_TYPE: 'openai',
      COPILOT_PROVIDER_BASE_URL: `${url}/v1`,
      COPILOT_PROVIDER_WIRE_API: 'completions',
      COPILOT_PROVIDER_API_KEY: key,
      COPILOT_MODEL: model,
      ...numbers(contextLength, (length) => ({
        COPILOT_PROVIDER_MAX_PROMPT_TOKENS: length - outputOf(length),
        COPILOT_PROVIDER_MAX_OUTPUT_TOKENS: outputOf(length),
      })),
      COPILOT_OFFLINE: 'true',
      ...removed(elsewhere.map((name) => `COPILOT_PROVIDER_${name}`)),
    },
  };
}

function opencode({ url, key, model, contextLength }: Connection): Settings {
  const limit = contextLength === null ? {} : { limit: { context: contextLength, output: outputOf(contextLength) } };
  const provider = {
    npm: '@ai-sdk/openai-compatible',
    name: 'svc',
    options: { baseURL: `${url}/v1`, apiKey: '{env:SVC_API_KEY}' },
    models: { [model]: { name: model, tool_call: true, ...limit } },
  };
  const config = { provider: { svc: provider }, model: `svc/${model}`, small_model: `svc/${model}` };
  return { args: [], variables: { SVC_API_KEY: key, OPENCODE_CONFIG_CONTENT: JSON.stringify(config) } };
}

function removed(names: readonly string[]): Record<string, undefined> {
  return Object.fromEntries(names.map((name): [string, undefined] => [name, undefined]));
}

function outputOf(contextLength: number): number {
  return Math.min(Math.floor(contextLength / 4), MOST_OUTPUT);
}

/** Returns the variables for a context length as text; none if it is not known. */
function numbers(
  contextLength: number | null,
  of: (length: number) => Readonly<Record<string, number>>,
): Record<string, string> {
  const all = contextLength === null ? {} : of(contextLength);
  return Object.fromEntries(Object.entries(all).map(([name, value]) => [name, String(value)]));
}
