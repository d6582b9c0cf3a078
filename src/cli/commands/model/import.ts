import { SvcError } from '../../../protocol/errors.ts';
import {
  PROGRAM_TITLES,
  PROGRAMS,
  type ImportedModel,
  type ImportRecord,
  type Program,
} from '../../../protocol/model/import.ts';
import { importHere } from '../../machine/import.ts';
import { jsonFlag, type Exit, type Run, type Spec } from '../../spec.ts';
import { bytes } from '../../terminal/format.ts';
import { table } from '../../terminal/layout.ts';
import { out, say } from '../../terminal/output.ts';
import { printResult } from '../../terminal/result.ts';

export const spec = {
  summary: 'Register the models of Ollama, LM Studio or the cache of the hub in place',
  detail: [
    'Nothing is copied, and nothing of these programs is written. Every file is read once for its digest. A file that cannot be used is named with the reason, and the others are registered.',
  ],
  flags: {
    from: { kind: 'choice', choices: PROGRAMS, summary: 'the program; otherwise all three' },
    'dry-run': { kind: 'switch', summary: 'print what would be registered, and register nothing' },
    json: jsonFlag,
  },
  examples: ['svc model import --dry-run', 'svc model import --from ollama', 'svc model import --from hf --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ from, 'dry-run': isDry, json }) => {
  const record = await importHere(from === undefined ? PROGRAMS : [from], isDry);
  const { models, refused, folders } = record;
  if (from !== undefined && folders.every(({ found }) => !found)) throw nothingOf(from, record);
  if (!json) {
    for (const { id, notes } of models) for (const note of notes) say(`${id}: ${note}`);
    for (const { path, reason } of refused) say(`refused: ${path} ${reason}`);
  }
  printResult(json, record, describe(record));
  return exitOf(record);
};

/** 1 if files were refused and no model was found. */
function exitOf({ models, refused }: ImportRecord): Exit {
  return models.length === 0 && refused.length > 0 ? 1 : 0;
}

function nothingOf(program: Program, { folders }: ImportRecord): SvcError {
  const places = folders.map(({ path }) => path).join(', ');
  return new SvcError('MODEL_NOT_FOUND', `there are no models of ${PROGRAM_TITLES[program]}: no folder ${places}`, {
    hint: {
      ollama: 'set OLLAMA_MODELS to its folder of models',
      lmstudio: 'register a file that lies elsewhere: svc model add FILE',
      hf: 'set HF_HUB_CACHE to its folder',
    }[program],
  });
}

function describe({ models, refused, dry_run: isDry }: ImportRecord): string {
  const count = (state: ImportedModel['state']): number => models.filter((model) => model.state === state).length;
  const rows = models.map((model) => [
    model.id,
    bytes(model.size_bytes),
    PROGRAM_TITLES[model.program],
    stateOf(model),
  ]);
  const shown = rows.length === 0 ? [] : [table([['MODEL', 'SIZE', 'FROM', 'STATE'], ...rows], out.tableColumns), ''];
  const made = isDry
    ? `${String(count('planned'))} to register`
    : `${String(count('imported') + count('named'))} registered`;
  return [...shown, `${made}, ${String(count('present'))} here already, ${String(refused.length)} refused`].join('\n');
}

function stateOf({ state, same_as }: ImportedModel): string {
  if (same_as === null) return state;
  return state === 'present' ? `present as ${same_as}` : `${state}, from ${same_as}`;
}
