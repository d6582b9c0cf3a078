/**
 * `svc launch` with the real agents, in one turn with a call of a tool, on a scripted provider. The agents are large, so
 * each test runs only if its program is in SVC_TEST_AGENTS (a folder of programs) or in PATH. These versions passed:
 * @anthropic-ai/claude-code 2.1.331, @openai/codex 0.169.0, @github/copilot 1.0.102, opencode-ai 1.18.33.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { AGENTS, type AgentName } from '../../src/cli/commands/launch/agents.ts';
import { findProgram } from '../../src/cli/machine/program.ts';
import { chunk } from '../backends/cloud/cloud-support.ts';
import { startUpstream, type Script, type Upstream } from '../backends/cloud/upstream.ts';
import { assertExit } from '../support/exit.ts';
import { makeHome, type Home } from '../support/home.ts';
import { unless } from '../support/skip.ts';
import { svc } from '../support/svc.ts';

const { SVC_TEST_AGENTS: folder, PATH } = process.env;
if (folder !== undefined) process.env['PATH'] = [folder, PATH].join(delimiter);

/** Variables that would lead an agent to the settings of whoever runs the test. */
const NO_HOMES = Object.fromEntries(
  ['CLAUDE_CONFIG_DIR', 'CODEX_HOME', 'COPILOT_HOME', 'OPENCODE_CONFIG', 'OPENCODE_CONFIG_DIR']
    .concat(['CONFIG', 'DATA', 'STATE', 'CACHE'].map((name) => `XDG_${name}_HOME`))
    .map((name): [string, undefined] => [name, undefined]),
);

const SECRET = 'the password is heron-5521';
const PROMPT = 'Read password.txt with your shell and tell me what it says.';

interface Trial {
  /** Name of the agent's tool that runs a command in a shell, and what calls it. */
  readonly tool: string;
  call(command: string): object;
  /** Arguments of a run that asks the user nothing. */
  readonly args: readonly string[];
}
const bash = (command: string): object => ({ command, description: 'reads the file' });
const TRIALS: Readonly<Record<AgentName, Trial>> = {
  claude: { tool: 'Bash', call: bash, args: ['-p', PROMPT, '--allowedTools', 'Bash'] },
  codex: {
    tool: 'exec_command',
    call: (cmd) => ({ cmd }),
    args: ['exec', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', PROMPT],
  },
  copilot: { tool: 'bash', call: bash, args: ['-p', PROMPT, '--allow-all-tools'] },
  opencode: { tool: 'bash', call: bash, args: ['run', PROMPT] },
};

interface Context {
  home: Home;
  upstream: Upstream;
}
const test = suite<Context>('launched agents');
test.before.each(async (context) => {
  context.home = await makeHome();
  context.upstream = await startUpstream();
});
test.after.each(async ({ home, upstream }) => {
  await svc(['stop', '--force'], { home });
  await upstream.close();
  await home.remove();
});

/** Calls the tool once, then answers with its result. */
function answering({ tool, call }: Trial): Script {
  return async (turn) => {
    const { messages, tools = [] } = turn.request.body;
    const last = messages.at(-1);
    if (last.role === 'tool') {
      await turn.event(chunk({ role: 'assistant', content: `It says: ${last.content}` }, 'stop'));
    } else if (tools.some((each: any) => each.function.name === tool)) {
      const called = { name: tool, arguments: JSON.stringify(call('cat password.txt')) };
      const tool_calls = [{ index: 0, id: 'call_1', type: 'function', function: called }];
      await turn.event(chunk({ role: 'assistant', tool_calls }, 'tool_calls'));
    } else {
      // A request beside the turn, for a title.
      await turn.event(chunk({ role: 'assistant', content: 'A file' }, 'stop'));
    }
    await turn.event('[DONE]');
    turn.end();
  };
}

/** Contents of the tool's results that the provider was sent. */
function resultsIn({ asked }: Upstream): string[] {
  const last = asked.map(({ body }) => body?.messages?.at(-1));
  return last.flatMap((message) => (message?.role === 'tool' ? [message.content] : []));
}

test('every agent is tried here', () => {
  assert.equal(Object.keys(TRIALS), Object.keys(AGENTS));
});

for (const [name, trial] of Object.entries(TRIALS) as [AgentName, Trial][]) {
  const { title, program } = AGENTS[name];
  const lacking =
    findProgram(program) === undefined ? `${program} is neither in PATH nor in SVC_TEST_AGENTS` : undefined;
  unless(lacking, test)(`${title} runs a command and answers with its output`, async ({ home, upstream }) => {
    upstream.script(answering(trial));
    const set = ['provider', 'set', 'mine', '--base-url', `${upstream.url}/v1`, '--default-model', 'coder'];
    assertExit(await svc(set, { home }), 0);
    // Now the agent needs a key.
    assertExit(await svc(['key', 'add', 'other'], { home }), 0);
    const cwd = join(home.dir, 'work');
    mkdirSync(cwd);
    writeFileSync(join(cwd, 'password.txt'), SECRET);
    // Agents leave files in both.
    const env = { ...NO_HOMES, HOME: home.dir, TMPDIR: home.dir, PWD: cwd };
    const { code, stdout, stderr } = await svc(['launch', name, '-m', 'mine/coder', '--', ...trial.args], {
      home,
      env,
      cwd,
    });
    assert.is(code, 0, stderr);
    assert.ok(stdout.includes(SECRET), stdout);
    const results = resultsIn(upstream);
    assert.is(results.length, 1);
    assert.ok(results[0]?.includes(SECRET), results[0]);
  });
}
test.run();
