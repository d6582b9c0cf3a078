/** What an engine is to be loaded with, before the fit chooses the rest: settings of the config, and files. */
import type { NativeLoadOptions } from '../../../engine/addon.ts';
import type { Logger } from '../../../log/log.ts';
import { given } from '../../../protocol/given.ts';
import { draftPathFor } from '../draft-model.ts';
import type { EngineModel } from '../engine-model.ts';
import type { Wish } from './fit.ts';
import { adapterFilesOf } from '../lora.ts';
import type { Store } from '../store.ts';

/** Disk tier of the prefix cache. */
export interface PrefixPlace {
  /** Directory of a model's files; called when its engine is started. The daemon limits all directories together. */
  folderOf(modelPath: string): string;
  /** File-name prefix for a model's entries; letters and digits. */
  nameOf(modelPath: string): string;
  /** The secret that authenticates the files: 32 hexadecimal digits. */
  key(): string;
}

export interface LoadWishOptions {
  readonly store: Store;
  readonly log: Logger;
  /** Settings of the config for all engines. */
  readonly engine: NativeLoadOptions;
  /** Absent: no disk tier. */
  readonly prefixes: PrefixPlace | undefined;
  /** Size limit of the disk tier; 0: it is off. */
  readonly prefixBytes: number;
}

export async function loadWishOf(
  model: EngineModel,
  { store, log, engine, prefixes, prefixBytes }: LoadWishOptions,
): Promise<Pick<Wish, 'options' | 'settings'>> {
  const files = {
    draft_path: await draftPathFor(model, { store, log }),
    projector_path: model.projector ?? undefined,
    adapters: adapterFilesOf(model),
  };
  const disk = prefixes === undefined || prefixBytes === 0 ? {} : prefixOptions(model.path, prefixes, prefixBytes);
  const settings = {
    context_length: await store.settingOf(model.id, 'context_length'),
    cache_type: await store.settingOf(model.id, 'cache_type'),
  };
  return { options: { ...engine, ...model.load, ...disk, ...given(files) }, settings };
}

function prefixOptions(modelPath: string, prefixes: PrefixPlace, bytes: number): NativeLoadOptions {
  return {
    prefix_folder: prefixes.folderOf(modelPath),
    prefix_model: prefixes.nameOf(modelPath),
    prefix_bytes: bytes,
    prefix_key: prefixes.key(),
  };
}
