/**
 * Stands for an agent: shows what it was given, asks svc as the agent does, or reports signals. AGENT is the agent's
 * name; the first word after the settings says what to do.
 */
const { AGENT, ...env } = process.env;
const words = process.argv.slice(2);
const isSetting = (word, index) => words[index - 1] === '-c' || word === '--disallowedTools=WebSearch';
const [what, ...more] = words.slice(words.findLastIndex(isSetting) + 1);

/** The settings of Codex, from its arguments. */
const codexSetting = (name) => {
  const word = words.find((each, index) => words[index - 1] === '-c' && each.startsWith(`${name}=`));
  return JSON.parse(word.slice(name.length + 1));
};

const post = async (url, key, body) => {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
  console.log(JSON.stringify({ http: response.status, ...(await response.json()) }));
};
const messages = [{ role: 'user', content: 'Hi' }];

const ask = {
  claude: () =>
    post(`${env.ANTHROPIC_BASE_URL}/v1/messages`, env.ANTHROPIC_AUTH_TOKEN, {
      model: env.ANTHROPIC_MODEL,
      max_tokens: 4,
      messages,
    }),
  codex: () => {
    const provider = `model_providers.${codexSetting('model_provider')}`;
    const body = { model: codexSetting('model'), input: 'Hi', max_output_tokens: 4 };
    return post(`${codexSetting(`${provider}.base_url`)}/responses`, env[codexSetting(`${provider}.env_key`)], body);
  },
  copilot: () =>
    post(`${env.COPILOT_PROVIDER_BASE_URL}/chat/completions`, env.COPILOT_PROVIDER_API_KEY, {
      model: env.COPILOT_MODEL,
      max_tokens: 4,
      messages,
    }),
  opencode: () => {
    const { provider, model: named } = JSON.parse(env.OPENCODE_CONFIG_CONTENT);
    const [name, ...model] = named.split('/');
    const { baseURL, apiKey } = provider[name].options;
    const [, variable] = /^\{env:(\w+)\}$/.exec(apiKey);
    return post(`${baseURL}/chat/completions`, env[variable], { model: model.join('/'), max_tokens: 4, messages });
  },
};

switch (what) {
  case 'ask':
    await ask[AGENT]();
    break;
  case 'exit':
    process.exitCode = Number(more[0]);
    break;
  case 'die':
    process.kill(process.pid, more[0]);
    break;
  case 'wait':
    for (const signal of ['SIGINT', 'SIGHUP', 'SIGTERM'])
      process.on(signal, () => {
        console.log(`got ${signal}`);
        if (signal === 'SIGTERM') process.exit(9);
      });
    process.stdin.on('data', () => {
      console.log('got a line');
      process.exit();
    });
    setInterval(() => {}, 1000);
    console.log('waiting');
    break;
  default:
    console.log(JSON.stringify({ words, env }));
}
