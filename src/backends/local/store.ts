import type { SharedSetting } from '../../protocol/model/settings.ts';
import type { TriedCapability, ModelRecord } from '../../protocol/records.ts';

/** The part of the model store that local models need. */
export interface Store {
  list(): Promise<readonly ModelRecord[]>;
  /** An id, an alias or a path; absent: the default. Throws MODEL_NOT_FOUND. */
  find(name?: string): Promise<ModelRecord>;
  /** Name of the setting in the config that decides for this model. Never rejects. */
  settingOf(name: string, key: SharedSetting): Promise<string>;
  /** Keeps for the model's record what loading the file has found. */
  noteLoad(path: string, found: readonly TriedCapability[]): Promise<void>;
}
