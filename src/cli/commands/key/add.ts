import { addKey } from '../../../home/key-file.ts';
import { resolvePaths } from '../../../home/paths.ts';
import { shownKey } from '../../../home/shown-key.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { given } from '../../../protocol/given.ts';
import { DAY_MS, LIMITS } from '../../../protocol/limits.ts';
import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { print, printJson, say } from '../../terminal/output.ts';

const tokens = { kind: 'count', least: 1, most: Number.MAX_SAFE_INTEGER, value: 'N' } as const;

export const spec = {
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
    models: {
      kind: 'strings',
      value: 'NAMES',
      summary:
        'only these: models, PROVIDER, PROVIDER/MODEL, policies; separated by commas, may be given more than once',
    },
    'tokens-per-day': { ...tokens, summary: 'quota of input and output tokens per day, in UTC' },
    'tokens-per-month': { ...tokens, summary: 'quota per calendar month, in UTC' },
    expires: { kind: 'string', value: 'WHEN', summary: 'refused from then on: a date such as 2027-01-31, or 90d' },
    json: jsonFlag,
  },
  examples: [
    'svc key add laptop',
    'svc key add guest --scope local --models smollm2 --tokens-per-day 100000 --expires 30d',
    'svc key add --scope admin deploy --json',
  ],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ scope, json, models, expires, ...quota }, { name }) => {
  const limits = given({
    models: models.length === 0 ? undefined : modelsOf(models),
    tokens_per_day: quota['tokens-per-day'],
    tokens_per_month: quota['tokens-per-month'],
    expires_at: expires === undefined ? undefined : expiryOf(expires),
  });
  const { entry, key } = await addKey(resolvePaths().keyFile, name, scope, limits);
  if (json) {
    printJson({ ...shownKey(entry), key });
    return;
  }
  say(`created key ${entry.name}, scope ${entry.scope}; it is shown only once`);
  print(key);
};

/** Names in lists with commas, each once. Throws INVALID_REQUEST. */
function modelsOf(lists: readonly string[]): string[] {
  const names = [...new Set(lists.flatMap((list) => list.split(',')).map((name) => name.trim()))];
  if (names.includes('')) throw new SvcError('INVALID_REQUEST', '--models has an empty name');
  if (names.length <= LIMITS.keyModels && names.every(({ length }) => length <= LIMITS.modelNameLength)) return names;
  throw new SvcError('INVALID_REQUEST', `--models takes up to ${String(LIMITS.keyModels)} names of models`);
}

/** Throws INVALID_REQUEST unless `typed` is a time in the future. */
function expiryOf(typed: string): string {
  const days = /^(\d{1,5})d$/.exec(typed)?.[1];
  const isDate = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,3})?)?Z)?$/.test(typed);
  const at = days !== undefined ? Date.now() + Number(days) * DAY_MS : isDate ? Date.parse(typed) : NaN;
  if (at > Date.now()) return new Date(at).toISOString();
  const what = Number.isNaN(at) ? 'is not a date' : 'is not in the future';
  throw new SvcError('INVALID_REQUEST', `--expires ${what}`, {
    hint: 'write a day in UTC (2027-01-31), a time (2027-01-31T12:00Z), or a number of days (90d)',
  });
}
