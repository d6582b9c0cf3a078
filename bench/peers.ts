/**
 * Compares svc with llama-server and node-llama-cpp on the same files in one run.
 *
 *   npm run bench:peers                                    everything, an hour on two idle cores; writes its sections
 *                                                          of docs/benchmarks.md
 *   npm run bench:peers -- --part agents                   that section alone: answers, or agents
 *   npm run bench:peers -- --only 'stream' --repetitions 1 [--model FILE …] [--threads 2] [--context 16384]
 *   npm run bench:peers -- --from build/bench/peers-agents.json   writes that section from saved results, also of an
 *                                                          interrupted run
 *
 * --context    KV-cache cells, except for the models with long prompts
 * --only       scenarios whose "MODEL-FILE SCENARIO" contains this text
 *
 * With any option but --part and --from, results are only printed; docs/benchmarks.md stays unchanged.
 */
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { buildLlamaServer } from './compare/llama-server.ts';
import { machine, writeSection } from './page.ts';
import { compare, turnsOf } from './peers/compare.ts';
import { Progress } from './peers/progress.ts';
import { report } from './peers/report.ts';
import { readResults, saveResults, type Result, type Results } from './peers/results.ts';
import type { Server } from './peers/servers/server.ts';
import { makeSubject, parts, subjectOf, vocabularySize, type Part, type Subject } from './peers/subjects.ts';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const { values, tokens } = parseArgs({
  tokens: true,
  options: {
    part: { type: 'string' },
    only: { type: 'string', default: '' },
    repetitions: { type: 'string', default: '5' },
    model: { type: 'string', multiple: true, default: [] },
    threads: { type: 'string', default: '2' },
    context: { type: 'string', default: '16384' },
    from: { type: 'string' },
  },
});

const isWhole = tokens.every((token) => token.kind === 'option' && token.name === 'part');

let isOver = false;
const running = new Set<Server>();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    // Failures from now on are not results.
    isOver = true;
    void Promise.all([...running].map((server) => server.stop())).finally(() => process.kill(process.pid, signal));
  });
}

if (values.from === undefined) await measureAll();
else await tell(await readResults(values.from), true);

async function tell(results: Results, shouldWrite: boolean): Promise<void> {
  const text = report(results);
  if (shouldWrite) await writeSection(text);
  console.log(text);
}

async function measureAll(): Promise<void> {
  const { part, model } = values;
  const [first, ...rest] = parts(root);
  const all = model.length > 0 ? [{ ...first, subjects: model.map(subjectOf) }] : [first, ...rest];
  const wanted = all.filter(({ name }) => part === undefined || name === part);
  if (wanted.length === 0) throw new Error(`no part is called ${String(part)}`);
  await buildLlamaServer(root);
  for (const each of wanted) await measure(each);
}

async function measure({ name, heading, subjects }: Part): Promise<void> {
  const repetitions = Number(values.repetitions);
  const wanted = subjects.map(onlyWanted).filter(({ scenarios }) => scenarios.length > 0);
  const scenarios = wanted.flatMap((subject) => subject.scenarios);
  for (const subject of wanted) await makeSubject(subject);

  const commands = new Set<string>();
  const results: Result[] = [];
  const startedAt = new Date().toISOString();
  const progress = new Progress(
    scenarios.flatMap((scenario) => Array<number>(turnsOf(scenario, repetitions)).fill(scenario.seconds)),
  );
  const soFar = (): Results => ({
    heading,
    machine: machine(),
    startedAt,
    repetitions,
    commands: [...commands],
    // Each model has one more result: /livez during the run.
    planned: scenarios.length + wanted.length,
    seconds: progress.seconds,
    results,
  });
  for (const { model, scenarios, contextLength = Number(values.context) } of wanted) {
    const options = {
      root,
      model,
      threads: Number(values.threads),
      contextLength,
      vocabulary: await vocabularySize(model),
    };
    const onResult = async (result: Result): Promise<void> => {
      if (isOver) return;
      results.push(result);
      await saveResults(join(root, 'build', 'bench', `peers-${name}.json`), soFar());
    };
    await compare({ scenarios, repetitions, options, progress, running, commands, onResult });
  }
  if (scenarios.length > 0) await tell(soFar(), isWhole);
}

function onlyWanted(subject: Subject): Subject {
  const scenarios = subject.scenarios.filter(({ name }) => `${basename(subject.model)} ${name}`.includes(values.only));
  return { ...subject, scenarios };
}
