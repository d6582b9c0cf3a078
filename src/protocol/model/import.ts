/**
 * Models of other programs, registered in place: the record of `svc model import --json`, and the events of the route.
 */
import type { BytesDone } from '../routes.ts';
import type { ModelSettings } from './settings.ts';

export const PROGRAMS = ['ollama', 'lmstudio', 'hf'] as const;
export type Program = (typeof PROGRAMS)[number];

export const PROGRAM_TITLES: Readonly<Record<Program, string>> = {
  ollama: 'Ollama',
  lmstudio: 'LM Studio',
  hf: "the Hugging Face hub's cache",
};

export interface ImportWishes {
  /**
   * Sources of the models to register, as an import without `models` lists them. Absent: lists, and registers nothing.
   */
  readonly models?: readonly string[];
}

/** A file that cannot be used, and why; `reason` is a predicate or a sentence after the path. */
export interface Refused {
  readonly path: string;
  readonly reason: string;
}

export interface ImportedModel {
  /** Its id; a name that was taken has a number appended. */
  readonly id: string;
  /** `named`: the file is installed already, and the config has a further name for it. */
  readonly state: 'imported' | 'named' | 'present' | 'planned';
  /** Id of the installed model; null: `id` itself. */
  readonly same_as: string | null;
  readonly program: Program;
  readonly source: string;
  readonly path: string;
  /** With the projector and the adapters. */
  readonly size_bytes: number;
  readonly projector: string | null;
  readonly adapters: readonly string[];
  readonly settings: ModelSettings;
  readonly notes: readonly string[];
}

export interface ImportRecord {
  /** True: nothing was registered. */
  readonly dry_run: boolean;
  readonly folders: readonly { readonly program: Program; readonly path: string; readonly found: boolean }[];
  readonly models: readonly ImportedModel[];
  readonly refused: readonly (Refused & { readonly program: Program })[];
}

export type ImportEvent =
  /** A folder is searched for models. */
  | { readonly type: 'looking'; readonly program: Program; readonly path: string }
  /** Bytes read, of all models that are registered. */
  | ({ readonly type: 'progress'; readonly model: string } & BytesDone)
  | ({ readonly type: 'finished' } & ImportRecord);
