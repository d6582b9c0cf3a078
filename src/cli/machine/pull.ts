/**
 * Downloads a model, in the daemon if one is running, otherwise in this process. Shows a bar on a terminal, otherwise a
 * line per tenth or per ten seconds, or the events as JSON lines. Ctrl-C pauses: the same command resumes the download.
 */
import { ControlClient } from '../../client/control-client.ts';
import { hubEnvironment } from '../../config/hub.ts';
import { resolvePaths } from '../../home/paths.ts';
import type { Pulled } from '../../models/pull/puller.ts';
import { SvcError } from '../../protocol/errors.ts';
import { given } from '../../protocol/given.ts';
import type { ModelRecord } from '../../protocol/records.ts';
import type { PullRequest } from '../../protocol/routes.ts';
import { ByteProgress } from '../terminal/byte-progress.ts';
import { bytes } from '../terminal/format.ts';
import { downloadsDirectory, listModels, openStore, storeDirectory } from './models.ts';
import { exit, printJsonLine, say, sayProgress } from '../terminal/output.ts';

const INTERRUPTED = 130;

export interface PullOptions {
  readonly model: string;
  readonly sha256?: string;
  readonly json: boolean;
}

/** Returns the record of the model. @throws SvcError; CANCELLED after Ctrl-C, with the command that resumes */
export async function pullModel({ model, sha256, json }: PullOptions): Promise<ModelRecord> {
  const paused = new AbortController();
  let id: string | undefined;
  const onInterrupt = (): void => {
    if (paused.signal.aborted) exit(INTERRUPTED);
    paused.abort();
  };
  process.on('SIGINT', onInterrupt);
  process.on('SIGTERM', onInterrupt);
  const show = json ? printJsonLine : shower();
  try {
    const request = { model, ...given({ sha256 }), hub: hubEnvironment() };
    for await (const event of events(request, paused.signal)) {
      show(event);
      if (event.type === 'resolved') id = event.model;
      if (event.type === 'pulled') return event.model;
    }
    throw new SvcError('INTERNAL', 'the pull ended without a result');
  } catch (error) {
    if (!paused.signal.aborted) throw error;
    if (id === undefined) throw new SvcError('CANCELLED', `cancelled before the download of ${model} began`);
    const hint = await goOn(model, sha256, id);
    throw new SvcError('CANCELLED', `paused; the partial download of ${model} is kept`, { hint });
  } finally {
    sayProgress('');
    process.off('SIGINT', onInterrupt);
    process.off('SIGTERM', onInterrupt);
  }
}

async function* events(request: PullRequest, signal: AbortSignal): AsyncGenerator<Pulled, void, undefined> {
  const paths = resolvePaths();
  let hasBegun = false;
  try {
    for await (const event of new ControlClient(paths.socketPath).pull(request, signal)) {
      hasBegun = true;
      yield event;
    }
    return;
  } catch (error) {
    if (hasBegun || !(error instanceof SvcError) || error.code !== 'DAEMON_NOT_RUNNING') throw error;
  }
  const { Puller } = await import('../../models/pull/puller.ts');
  const { pullByName } = await import('../../models/pull/by-name.ts');
  const puller = new Puller({
    store: openStore(),
    storeDir: storeDirectory(),
    dir: downloadsDirectory(),
  });
  try {
    yield* pullByName(puller, request, hubEnvironment(), signal);
  } finally {
    await puller.close();
  }
}

async function goOn(model: string, sha256: string | undefined, id: string): Promise<string> {
  const { findUnfinished } = await import('../../models/pull/unfinished.ts');
  const resume = `resume: svc model pull ${model}${sha256 === undefined ? '' : ` --sha256 ${sha256}`}`;
  // By the id of an installed model, whose newer version this is, `rm` would remove that one.
  const unfinished = await findUnfinished(downloadsDirectory(), id, await listModels());
  return unfinished === undefined ? resume : `${resume}; or delete it: svc model rm ${id}`;
}

function shower(): (event: Pulled) => void {
  let progress: ByteProgress | undefined;
  return (event) => {
    switch (event.type) {
      case 'resolved': {
        const here = event.present_bytes === 0 ? '' : `, ${bytes(event.present_bytes)} already downloaded`;
        const files = event.files.length === 1 ? '' : ` in ${String(event.files.length)} files`;
        say(`pulling ${event.model} (${bytes(event.total_bytes)}${files}${here})`);
        progress = new ByteProgress(event.model, event.present_bytes / event.total_bytes);
        break;
      }
      case 'waiting':
        sayProgress('');
        say(
          event.pause_ms === null
            ? event.reason
            : `${event.reason}; retrying in ${(event.pause_ms / 1000).toFixed(1)} s`,
        );
        break;
      case 'progress':
        progress?.show(event);
        break;
      case 'pulled':
        break;
    }
  };
}
