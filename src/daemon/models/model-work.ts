/**
 * Long work on the models of this machine: quantising, verifying, importing. Each is a stream of events; a caller that
 * leaves it cancels the work, and the stream ends once the work has ended.
 *
 * One of each kind runs at a time, and a second one is BUSY: quantising takes all processors, and the others read a disk
 * as fast as it can.
 */
import { stat } from 'node:fs/promises';
import { loadConfig } from '../../config/config.ts';
import { modelNamesIn } from '../../config/model-settings.ts';
import { changeConfig } from '../../config/settings.ts';
import type { Paths } from '../../home/paths.ts';
import type { Surroundings } from '../../models/import/folders.ts';
import { importModels } from '../../models/import/import.ts';
import { Job } from '../../models/pull/job.ts';
import { quantizeModel, type Quantizer } from '../../models/store/quantize.ts';
import type { ModelStore } from '../../models/store/store.ts';
import { SvcError } from '../../protocol/errors.ts';
import { given } from '../../protocol/given.ts';
import { PROGRAMS, type ImportEvent, type ImportWishes } from '../../protocol/model/import.ts';
import type { QuantizeEvent, QuantizeWishes } from '../../protocol/model/quantize.ts';
import type { VerifyEvent, VerifyResult } from '../../protocol/model/verify.ts';

export interface ModelWorkOptions {
  readonly paths: Pick<Paths, 'configFile'>;
  /** The installed models, without the names that the config gives them. */
  readonly installed: ModelStore;
  readonly quantizer: Quantizer;
  /** Decide where other programs have their models. */
  readonly surroundings: Surroundings;
  /** Aborted when the daemon stops. */
  readonly ending: AbortSignal;
  readonly router: { readonly draining: boolean };
  /** Reads the config again. Throws CONFIG_INVALID. */
  reload(): void;
}

/** What svc does, in its errors, by the kind of work. */
const KINDS = { quantize: 'quantises a model', verify: 'verifies a model', import: 'imports models' } as const;

export class ModelWork {
  readonly #options: ModelWorkOptions;
  readonly #running = new Set<keyof typeof KINDS>();

  constructor(options: ModelWorkOptions) {
    this.#options = options;
  }

  /** As `svc model quantize`; nothing is kept if it is cancelled. Rejects as `quantizeModel`. */
  quantize(wishes: QuantizeWishes, signal: AbortSignal): AsyncIterable<QuantizeEvent> {
    const { installed, quantizer } = this.#options;
    return this.#alone('quantize', signal, async (emit: (event: QuantizeEvent) => void, left) => {
      await quantizeModel(installed, wishes, quantizer, emit, left);
    });
  }

  /** As `svc model verify MODEL`. Rejects with MODEL_NOT_FOUND, CANNOT_WRITE. */
  verify(model: string, signal: AbortSignal): AsyncIterable<VerifyEvent | VerifyResult> {
    return this.#alone('verify', signal, async (emit: (event: VerifyEvent | VerifyResult) => void, left) => {
      emit(await this.#options.installed.verify(model, emit, left));
    });
  }

  /**
   * As `svc model import`; models that were registered before it was cancelled stay. Rejects with MODEL_NOT_FOUND,
   * CANNOT_WRITE.
   */
  import({ models }: ImportWishes, signal: AbortSignal): AsyncIterable<ImportEvent> {
    const { paths, installed, surroundings, reload } = this.#options;
    return this.#alone('import', signal, async (emit: (event: ImportEvent) => void, left) => {
      const record = await importModels({
        programs: PROGRAMS,
        surroundings,
        refusal,
        isDry: models === undefined,
        ...given({ sources: models }),
        registry: installed.registry,
        names: modelNamesIn(loadConfig(paths).models),
        setName: async (name, settings) => {
          await changeConfig(paths, [{ path: ['models', name], value: settings }]);
          reload();
        },
        emit,
        signal: left,
      });
      emit({ type: 'finished', ...record });
    });
  }

  /** Throws BUSY while work of this kind runs, NOT_READY while draining. */
  async *#alone<Event extends { readonly type: string }>(
    kind: keyof typeof KINDS,
    signal: AbortSignal,
    work: (emit: (event: Event) => void, signal: AbortSignal) => Promise<void>,
  ): AsyncGenerator<Event, void, undefined> {
    const { ending, router } = this.#options;
    if (router.draining) {
      throw new SvcError('NOT_READY', `svc is draining and no longer ${KINDS[kind]}`, { retryAfterSeconds: 1 });
    }
    if (this.#running.has(kind)) {
      throw new SvcError('BUSY', `svc already ${KINDS[kind]}, one request at a time`, {
        hint: 'try again when that request has ended',
      });
    }
    this.#running.add(kind);
    try {
      const job = new Job<Event>((before, now) => before.type === 'progress' && now.type === 'progress', work);
      yield* job.listen(AbortSignal.any([signal, ending]));
    } finally {
      this.#running.delete(kind);
    }
  }
}

/** A daemon of root could read the folders of every user, so it reads only those of root. */
async function refusal(root: string): Promise<string | null> {
  if (process.getuid?.() !== 0) return null;
  const found = await stat(root).catch(() => null);
  if (found === null || found.uid === 0) return null;
  return 'belongs to another user than root, as whom svc runs; `svc model import` on this machine registers its models';
}
