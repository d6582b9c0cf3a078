/**
 * `svc launch`: starts a coding agent that is installed on this machine, pointed at svc. The agent gets this terminal;
 * what svc says comes before, on standard error.
 */
import { ControlClient } from '../../client/control-client.ts';
import { reachable } from '../../config/reachable.ts';
import { resolvePaths } from '../../home/paths.ts';
import { SvcError } from '../../protocol/errors.ts';
import { offeringPull } from '../asking/offer-pull.ts';
import { ensureServing } from '../machine/daemon.ts';
import { routingFlags, type Run, type Spec } from '../spec.ts';
import { count } from '../terminal/format.ts';
import { print, say } from '../terminal/output.ts';
import { keyForAgent, needsKey, type AgentKey } from './launch/agent-key.ts';
import { AGENT_NAMES, AGENTS, type Agent, type Connection, type Settings } from './launch/agents.ts';
import { chooseModel } from './launch/choose-model.ts';
import { pastProxies } from './launch/past-proxies.ts';
import { findProgram, runProgram } from '../machine/program.ts';
import { KEY_OF_SHELL, shellCommand } from './launch/shell-command.ts';

/** Stands for a key where svc needs none. */
const NO_KEY = 'svc';
const WITHOUT_KEY: AgentKey = { key: NO_KEY, remove: () => Promise.resolve() };

export const spec = {
  summary: 'Start a coding agent that uses svc',
  detail: [
    'The agent must be installed. It is pointed at svc by variables and arguments of this one run; its own files are not changed.',
    'Without -m, its model is the default model if that suffices, otherwise the largest installed one that does: it must call tools, and its context must be long enough for the agent. Starts the daemon if none is running.',
  ],
  arguments: [{ name: 'agent', required: true, choices: AGENT_NAMES }],
  flags: {
    model: {
      kind: 'string',
      short: 'm',
      value: 'MODEL',
      summary: 'model id or alias, PROVIDER/MODEL, or policy',
      completes: 'model',
    },
    print: { kind: 'switch', summary: 'print the command and its variables for a shell; do not start the agent' },
    'no-start': routingFlags['no-start'],
  },
  passesOn: 'ARGS',
  insteadOfJson: 'print the command and its variables instead: svc launch AGENT --print',
  examples: [
    'svc launch claude',
    'svc launch codex -m qwen3-8b -- exec "explain this repository"',
    'svc launch opencode -m openai/gpt-5',
    'svc launch copilot --print',
  ],
} as const satisfies Spec;

export const run: Run<typeof spec> = async (
  { model, print: isPrinted, ...flags },
  { agent: name },
  _loadSpecs,
  rest,
) => {
  const agent: Agent = AGENTS[name];
  const program = isPrinted ? agent.program : installed(agent);
  const paths = resolvePaths();
  if (!flags['no-start']) await ensureServing(paths, false);
  const client = new ControlClient(paths.socketPath);
  const chosen = await offeringPull(model, { json: false }, () => chooseModel(client, model, agent));
  const { http } = await client.status();
  if (http === null) throw new SvcError('NOT_READY', 'the daemon does not serve HTTP', { hint: 'see `svc status`' });
  const connectionWith = (key: string): Connection => ({ url: `http://${reachable(http)}`, key, ...chosen });
  const isKeyNeeded = needsKey(paths.keyFile);
  if (isPrinted) {
    if (isKeyNeeded) say('SVC_API_KEY must hold an API key: svc key add NAME prints a new one');
    print(shellCommand(program, settingsOf(agent, connectionWith(isKeyNeeded ? KEY_OF_SHELL : NO_KEY)), rest));
    return 0;
  }
  const context = chosen.contextLength === null ? '' : `, context of ${count(chosen.contextLength)} tokens`;
  say(`starting ${agent.title} (${chosen.model}${context})`);
  const { key, remove } = isKeyNeeded ? await keyForAgent(paths.keyFile, name) : WITHOUT_KEY;
  try {
    const { args, variables } = settingsOf(agent, connectionWith(key));
    return await runProgram(program, [...args, ...rest], variables);
  } finally {
    await remove();
  }
};

function settingsOf(agent: Agent, connection: Connection): Settings {
  const { args, variables } = agent.settings(connection);
  return { args, variables: { ...variables, ...pastProxies(connection.url) } };
}

/** Throws NOT_FOUND. */
function installed({ title, program, install }: Agent): string {
  const path = findProgram(program);
  if (path !== undefined) return path;
  throw new SvcError('NOT_FOUND', `${title} is not installed: PATH has no program ${program}`, {
    hint: `install it: ${install}`,
  });
}
