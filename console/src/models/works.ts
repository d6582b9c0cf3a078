/**
 * Quantising, verifying and importing that this page has started. It goes on while another view is shown; cancelling
 * it, or leaving the page, ends it.
 */
import { signal } from '@preact/signals';
import type { ImportEvent, ImportRecord } from '../../../src/protocol/model/import.ts';
import type { QuantizeEvent, QuantizeWishes } from '../../../src/protocol/model/quantize.ts';
import type { VerifyEvent, VerifyResult } from '../../../src/protocol/model/verify.ts';
import { HTTP_ROUTES, type ErrorEvent } from '../../../src/protocol/routes.ts';
import { ApiError } from '../api/api-error.ts';
import { askLines } from '../api/request.ts';
import { readModels } from '../chat/models.ts';
import { announce } from '../parts/announcer.tsx';
import { byteFigures, NO_BYTES, type ByteFigures } from '../parts/byte-figures.ts';
import { bytes, plural } from '../parts/format.ts';
import { installedChanges } from './installed.ts';

export interface Work extends ByteFigures {
  /** Unique in the list: `Quantising tiny`. */
  readonly title: string;
  /** Model that it is about; null: several. */
  readonly model: string | null;
  readonly state: 'running' | 'done' | 'failed' | 'cancelled';
  /** What happens now; empty: the title says it. */
  readonly phase: string;
  /** What came of it; empty while it runs. */
  readonly result: string;
  readonly error: ApiError | null;
}

export const works = signal<readonly Work[]>([]);

const running = new Map<string, AbortController>();

/** Quantises a model into a new one. */
export async function quantize(wishes: QuantizeWishes): Promise<void> {
  const { model } = wishes;
  await run({ title: `Quantising ${model}`, model }, (signal) => quantizing(wishes, signal));
}

/** Compares the files of a model with their digests. */
export async function verify(model: string): Promise<void> {
  await run({ title: `Verifying ${model}`, model }, (signal) => verifying(model, signal));
}

/** Registers models of other programs; `sources` as the list of them has them. */
export async function importModels(sources: readonly string[]): Promise<void> {
  const title = `Importing ${plural(sources.length, 'model')}`;
  await run({ title, model: null }, (signal) => importing(sources, signal));
}

async function* quantizing(wishes: QuantizeWishes, signal: AbortSignal): AsyncGenerator<Partial<Work>> {
  const path = HTTP_ROUTES.runtimeQuantize;
  for await (const event of askLines<QuantizeEvent | ErrorEvent>(path, { body: wishes, signal })) {
    switch (event.type) {
      case 'planned':
        yield { phase: `making ${event.model}, ${bytes(event.expected_bytes)}` };
        break;
      case 'progress':
        yield { ...byteFigures(event), ...(event.stage === 'checking' ? { phase: 'checking the new file' } : {}) };
        break;
      case 'quantized':
        yield { state: 'done', result: `${event.model.id} is installed, ${bytes(event.model.size_bytes)}` };
    }
  }
}

async function* verifying(model: string, signal: AbortSignal): AsyncGenerator<Partial<Work>> {
  const path = HTTP_ROUTES.runtimeVerify;
  for await (const event of askLines<VerifyEvent | VerifyResult | ErrorEvent>(path, { body: { model }, signal })) {
    switch (event.type) {
      case 'progress':
        yield byteFigures(event);
        break;
      case 'verified':
        if (event.state === 'damaged') yield { error: damageOf(event) };
        break;
      case 'finished':
        yield event.damaged.length === 0
          ? { state: 'done', result: 'intact, every file has its digest' }
          : { state: 'failed', result: 'damaged' };
    }
  }
}

async function* importing(models: readonly string[], signal: AbortSignal): AsyncGenerator<Partial<Work>> {
  const path = HTTP_ROUTES.runtimeImport;
  for await (const event of askLines<ImportEvent | ErrorEvent>(path, { body: { models }, signal })) {
    switch (event.type) {
      case 'looking':
        yield { phase: `looking in ${event.path}` };
        break;
      case 'progress':
        yield { ...byteFigures(event), phase: `reading ${event.model}` };
        break;
      case 'finished':
        yield { state: 'done', result: imported(event) };
    }
  }
}

export function cancel(title: string): void {
  running.get(title)?.abort();
}

/** Removes work that has ended from the list. */
export function dismiss(title: string): void {
  works.value = works.value.filter((each) => each.title !== title);
}

/** Runs the work, unless this page runs it already, and keeps its state in `works`. Never throws. */
async function run(
  start: Pick<Work, 'title' | 'model'>,
  changes: (signal: AbortSignal) => AsyncIterable<Partial<Work>>,
): Promise<void> {
  const { title } = start;
  if (running.has(title)) return;
  const controller = new AbortController();
  running.set(title, controller);
  const begun: Work = { ...start, ...NO_BYTES, state: 'running', phase: '', result: '', error: null };
  works.value = [...works.value.filter((each) => each.title !== title), begun];
  try {
    for await (const next of changes(controller.signal)) change(title, next);
    const ended = works.value.find((each) => each.title === title);
    if (ended?.state === 'running') throw ApiError.cutOff();
    announce(`${title}: ${ended?.result ?? ''}`);
    await readModels();
  } catch (thrown) {
    const error = ApiError.from(thrown);
    if (error.isCancelled) change(title, { state: 'cancelled', result: 'cancelled' });
    else change(title, { state: 'failed', result: 'failed', error });
    announce(error.isCancelled ? `${title}: cancelled` : `${title} failed: ${error.message}`);
  } finally {
    running.delete(title);
    installedChanges.value += 1;
  }
}

function change(title: string, next: Partial<Work>): void {
  works.value = works.value.map((each) => (each.title === title ? { ...each, ...next } : each));
}

function damageOf({ problems, hint }: Extract<VerifyEvent, { type: 'verified' }>): ApiError {
  return new ApiError('MODEL_INVALID', problems.map(({ file, message }) => `${file} ${message}`).join('; '), hint);
}

function imported({ models, refused }: ImportRecord): string {
  const names = models.map(({ id, state }) => (state === 'present' ? `${id} was installed already` : id));
  const problems = refused.map(({ path, reason }) => `${path} ${reason}`);
  return [names.length === 0 ? 'nothing is registered' : `installed ${names.join(', ')}`, ...problems].join('. ');
}
