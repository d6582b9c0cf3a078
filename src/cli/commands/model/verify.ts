import { ERRORS, SvcError } from '../../../protocol/errors.ts';
import type { VerifyEvent, VerifyResult } from '../../../protocol/model/verify.ts';
import { ByteProgress } from '../../terminal/byte-progress.ts';
import { jsonLinesFlag, type Run, type Spec } from '../../spec.ts';
import { bytes, count } from '../../terminal/format.ts';
import { modelName } from '../../machine/model-name.ts';
import { openStore } from '../../machine/models.ts';
import { printJsonLine, say, sayProgress } from '../../terminal/output.ts';
import { printText } from '../../terminal/result.ts';

export const spec = {
  summary: 'Check model files against their SHA-256 digests',
  detail: [
    'Without a model, checks all models and removes what killed commands left in the store. Files that belong to a model are never deleted.',
  ],
  arguments: [{ name: 'model', required: false, completes: 'model' }],
  flags: {
    all: { kind: 'switch', summary: 'check all models, the same as without a model' },
    json: jsonLinesFlag,
  },
  examples: ['svc model verify', 'svc model verify qwen', 'svc model verify --all --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ all, json }, { model }) => {
  if (all && model !== undefined) {
    throw new SvcError('INVALID_REQUEST', 'a model and --all exclude each other', { hint: 'give one of them' });
  }
  const show = json ? printJsonLine : shower();
  let result: VerifyResult;
  try {
    result = await openStore().verify(model === undefined ? undefined : modelName(model), show);
  } finally {
    sayProgress('');
  }
  if (json) printJsonLine(result);
  else tell(result);
  return result.damaged.length === 0 ? 0 : ERRORS.MODEL_INVALID.exit;
};

function shower(): (event: VerifyEvent) => void {
  const progress = new ByteProgress('verifying');
  return (event) => {
    if (event.type === 'progress') {
      progress.show(event);
      return;
    }
    sayProgress('');
    const { model, state, size_bytes, problems, hint } = event;
    printText(`${model}: ${state === 'ok' ? `ok (${bytes(size_bytes)})` : 'damaged'}`);
    for (const { file, message } of problems) printText(`  ${file} ${message}`);
    if (hint !== null && problems.length > 0) printText(`  ${hint}`);
  };
}

function tell({ verified, damaged, leftovers, warning }: VerifyResult): void {
  if (leftovers !== null && leftovers.removed.length > 0) {
    say(`removed ${files(leftovers.removed.length)} that belonged to no model (${bytes(leftovers.freed_bytes)})`);
  }
  for (const { path, size_bytes, removed_after } of leftovers?.kept ?? []) {
    say(
      `${path} (${bytes(size_bytes)}) belongs to no model; the first \`svc model verify\` after ${removed_after} removes it`,
    );
  }
  if (warning !== undefined) say(`the results were not saved: ${warning}`);
  if (damaged.length > 0) say(`${count(damaged.length)} of ${count(verified)} models are damaged`);
}

function files(number: number): string {
  return number === 1 ? 'a file' : `${count(number)} files`;
}
