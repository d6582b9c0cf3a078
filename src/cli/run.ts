/**
 * One prompt, one answer. The words go to standard output as they come; whatever is about the answer
 * goes to standard error. Ctrl-C closes the connection, which ends the generation in the engine.
 */
import { Client } from '../client/client.ts';
import { resolvePaths } from '../config/paths.ts';
import { BUILTIN_ID } from '../models/builtin.ts';
import { SvcError } from '../protocol/errors.ts';
import type { FinishEvent, GenerateRequest, GenerateResult, RouteEvent, StartEvent } from '../protocol/generate.ts';
import { LIMITS } from '../protocol/limits.ts';
import type { Flags, Run } from './commands.ts';
import { ensureDaemon } from './daemon.ts';
import { introduceBuiltin } from './introduce.ts';
import { modelName } from './model-name.ts';
import { exit, printJson, say, sayProgress, write } from './output.ts';
import { hasInput, readInput } from './stdin.ts';

/** For a daemon that has to be started first. */
const START_MS = 60_000;
/** Silence for so long is explained, on a terminal. */
const QUIET_MS = 1000;
const INTERRUPTED = 130;

export const run: Run<'run'> = async (flags, { prompt }) => {
  const route = routeOf(flags);
  const request = requestOf(flags, route, await readPrompt(prompt));
  const paths = resolvePaths();
  if (!flags['no-start']) {
    const onSpawn = (): void => {
      say('starting the daemon');
    };
    const { trouble, isStarting } = await ensureDaemon(paths, { timeoutMs: START_MS, json: flags.json, onSpawn });
    // One that has settled without being ready may still have an answer for this model, or the reason why not.
    if (trouble !== null && isStarting) throw trouble;
  }
  const result = await answer(new Client(paths.socketPath), request, !flags.json && !flags['no-stream']);
  if (flags.json) printJson(result);
  else if (flags['no-stream']) write(asLine(result.text));
  if (result.finish_reason === 'length' && flags['max-tokens'] === undefined) {
    say('the answer is cut off: the context of the model is full');
  }
  if (flags.stats) say(statsOf(result));
  if (result.provider === 'local' && result.model === BUILTIN_ID) introduceBuiltin(paths.stateDir);
  return 0;
};

/** The argument, standard input, or both. */
async function readPrompt(argument: string | undefined): Promise<string> {
  const input = argument === '-' || hasInput() ? await readInput(LIMITS.bodyBytes) : '';
  const parts = [argument === '-' ? '' : (argument ?? ''), input].filter((part) => part.trim() !== '');
  if (parts.length > 0) return parts.join('\n\n');
  throw new SvcError('INVALID_REQUEST', 'there is no prompt', {
    hint: 'give one: svc run "Why is the sky blue?", or pipe it in: svc run - < question.txt',
  });
}

function routeOf(flags: Flags<'run'>): string | undefined {
  const { local, cloud, provider } = flags;
  const given = [local ? 'local' : undefined, cloud ? 'cloud' : undefined, provider && `provider:${provider}`];
  const routes = given.filter((route) => route !== undefined);
  if (routes.length > 1) {
    throw new SvcError('INVALID_REQUEST', '--local, --cloud and --provider exclude each other', {
      hint: 'give one of them',
    });
  }
  return routes[0];
}

function requestOf(flags: Flags<'run'>, route: string | undefined, prompt: string): GenerateRequest {
  const { system, model } = flags;
  return {
    messages: [
      ...(system === undefined ? [] : [{ role: 'system' as const, content: system }]),
      { role: 'user', content: prompt },
    ],
    sampling: given({
      temperature: flags.temperature,
      top_k: flags['top-k'],
      top_p: flags['top-p'],
      min_p: flags['min-p'],
      seed: flags.seed,
    }),
    stop: [...flags.stop],
    ...given({
      model: model === undefined ? undefined : modelName(model),
      max_tokens: flags['max-tokens'],
      route,
      timeout_ms: flags.timeout,
    }),
  };
}

/** What is undefined is left out. */
function given<Values extends object>(values: Values): { [Key in keyof Values]?: Exclude<Values[Key], undefined> } {
  const entries = Object.entries(values).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [Key in keyof Values]?: Exclude<Values[Key], undefined> };
}

async function answer(client: Client, request: GenerateRequest, live: boolean): Promise<GenerateResult> {
  const controller = new AbortController();
  const onInterrupt = (): void => {
    if (controller.signal.aborted) exit(INTERRUPTED);
    controller.abort();
  };
  process.on('SIGINT', onInterrupt);
  const quiet = setTimeout(() => {
    sayProgress('waiting for the model');
  }, QUIET_MS);

  let route: RouteEvent | undefined;
  let start: StartEvent | undefined;
  let finish: FinishEvent | undefined;
  let text = '';
  try {
    for await (const event of client.generate(request, controller.signal)) {
      clearTimeout(quiet);
      if (text === '') sayProgress('');
      switch (event.type) {
        case 'route':
          route = event;
          break;
        case 'start':
          start = event;
          break;
        case 'text':
          text += event.text;
          if (live) write(event.text);
          break;
        case 'finish':
          finish = event;
      }
    }
  } finally {
    clearTimeout(quiet);
    process.off('SIGINT', onInterrupt);
    if (text === '') sayProgress('');
    else if (live && !text.endsWith('\n')) write('\n');
  }
  if (route === undefined || start === undefined || finish === undefined) {
    throw new SvcError('INTERNAL', 'the daemon cannot be understood: parts of its answer are missing');
  }
  return {
    text,
    model: start.model,
    provider: start.provider,
    route: route.route,
    finish_reason: finish.reason,
    usage: finish.usage,
    timings: finish.timings,
    trace_id: route.trace_id,
  };
}

function asLine(text: string): string {
  return text === '' || text.endsWith('\n') ? text : `${text}\n`;
}

function statsOf({ model, provider, usage, timings }: GenerateResult): string {
  const cached = usage.cached_tokens === 0 ? '' : ` (${String(usage.cached_tokens)} cached)`;
  const first = timings.ttft_ms === null ? '' : `, first token after ${timings.ttft_ms.toFixed(0)} ms`;
  const speed = timings.tokens_per_second === null ? '' : `, ${timings.tokens_per_second.toFixed(1)} tokens/s`;
  return (
    `${model} (${provider}): ${String(usage.input_tokens)} tokens in${cached}, ${String(usage.output_tokens)} out` +
    `${first}${speed}, ${(timings.total_ms / 1000).toFixed(2)} s in all`
  );
}
