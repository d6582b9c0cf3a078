/**
 * svc beside llama-server, on the same files, in one run.
 *
 *   npm run bench:peers                                  all of it, about an hour on two cores; writes its section of docs/benchmarks.md
 *   npm run bench:peers -- --only 'stream' --repetitions 3 [--model FILE …] [--threads 2] [--context 16384]
 *
 * With an option the figures are printed, and docs/benchmarks.md stays as it is.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { buildLlamaServer } from '../scripts/compare/llama-server.ts';
import { writeSection } from './page.ts';
import { LiveWatch } from './peers/live-watch.ts';
import { report, type Row } from './peers/report.ts';
import { OVERHEAD_SCENARIOS, SCENARIOS, type Scenario } from './peers/scenarios.ts';
import { startLlamaServer, startSvc, type Server, type ServerOptions } from './peers/servers.ts';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const { values } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    repetitions: { type: 'string', default: '5' },
    model: { type: 'string', multiple: true, default: [] },
    threads: { type: 'string', default: '2' },
    context: { type: 'string', default: '16384' },
  },
});
const repetitions = Number(values.repetitions);
const isWhole = process.argv.length === 2;

interface Subject {
  readonly model: string;
  readonly scenarios: readonly Scenario[];
  readonly hasSmallVocabulary: boolean;
}

const shape = (name: string): Subject => ({
  model: join(root, 'build', 'models', `${name}.gguf`),
  scenarios: SCENARIOS,
  hasSmallVocabulary: false,
});
const small: Subject = {
  model: join(root, 'build', 'models', 'tiny-llama.gguf'),
  scenarios: OVERHEAD_SCENARIOS,
  hasSmallVocabulary: true,
};
const subjects: Subject[] =
  values.model.length > 0
    ? values.model.map((model) => ({
        model,
        scenarios: [...SCENARIOS, ...OVERHEAD_SCENARIOS],
        hasSmallVocabulary: false,
      }))
    : [shape('qwen2.5-0.5b'), small];

if (values.model.length === 0) await make('qwen2.5-0.5b');
const program = await buildLlamaServer(root);
const rows: Row[] = [];
const commands = new Set<string>();
let livez: Awaited<ReturnType<LiveWatch['stop']>> | null = null;
for (const subject of subjects) await compare(subject);

const text = report(rows, { commands: [...commands], repetitions, livez });
if (isWhole) await writeSection(text);
console.log(text);

async function compare({ model, scenarios, hasSmallVocabulary }: Subject): Promise<void> {
  const wanted = scenarios.filter(({ name }) => name.includes(values.only));
  if (wanted.length === 0) return;
  const options: ServerOptions = {
    root,
    model,
    threads: Number(values.threads),
    contextLength: Number(values.context),
    hasSmallVocabulary,
  };
  const servers: Server[] = [];
  try {
    servers.push(await startSvc(options), await startLlamaServer(program, options, null));
    if (wanted.some((scenario) => scenario.servers?.includes('llama-server -np 8') === true)) {
      servers.push(await startLlamaServer(program, options, 8));
    }
    for (const { command } of servers) commands.add(command);
    const watch = new LiveWatch((servers[0] as Server).url);
    try {
      for (const scenario of wanted) rows.push(...(await measure(basename(model), scenario, servers)));
    } finally {
      const told = await watch.stop();
      livez ??= told;
    }
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
}

/** The servers take turns; each repetition another one begins. */
async function measure(model: string, scenario: Scenario, servers: readonly Server[]): Promise<Row[]> {
  const asked = servers.filter(({ name }) => (scenario.servers ?? ['svc', 'llama-server']).includes(name));
  const measured = new Map(asked.map(({ name }): [string, (readonly number[])[]] => [name, []]));
  for (let repetition = 0; repetition < repetitions; repetition += 1) {
    for (let turn = 0; turn < asked.length; turn += 1) {
      const server = asked[(repetition + turn) % asked.length] as Server;
      const figures = await scenario.measure(server);
      measured.get(server.name)?.push(figures);
      console.error(
        `${model}, ${scenario.name}, ${server.name}: ${figures.map((figure) => figure.toFixed(2)).join(', ')}`,
      );
    }
  }
  return scenario.figures.map((figure, index) => ({
    model,
    scenario: scenario.name,
    figure,
    values: new Map([...measured].map(([name, all]) => [name, all.map((figures) => figures[index] as number)])),
  }));
}

async function make(preset: string): Promise<void> {
  const child = spawn(process.execPath, ['--import', 'tsx', join(root, 'scripts', 'make-model.ts'), preset], {
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`the model ${preset} could not be made`);
}
