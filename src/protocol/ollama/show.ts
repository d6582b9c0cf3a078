/** `POST /api/show`: describes one model in Ollama's words. */
import { given } from '../given.ts';
import type { ListedModel } from '../model/listed.ts';
import type { Capability } from '../records.ts';
import { detailsOf, remoteModelOf } from './models.ts';

export type Metadata = Readonly<Record<string, string | number | boolean | null>>;

/** What a model's files and its settings say beyond its record. */
export interface ModelDescription {
  /** Metadata of the model file. Lists, such as the vocabulary, are null. */
  readonly metadata: Metadata;
  /** null: the file has none. */
  readonly template: string | null;
  /** Metadata of the projector. null: there is none. */
  readonly projector: Metadata | null;
  /** The vocabulary has the tokens for a gap in a text. */
  readonly fillsGaps: boolean;
  /** The settings as a Modelfile of Ollama, without paths. */
  readonly modelfile: string;
  /** Its parameters: `temperature 0.5`. */
  readonly parameters: readonly string[];
}

/** Description of a model of which nothing is known. */
export const NO_FACTS: ModelDescription = {
  metadata: {},
  template: null,
  projector: null,
  fillsGaps: false,
  modelfile: '',
  parameters: [],
};

const ARCHITECTURE = 'general.architecture';

/** `typed`: the model as the client spelled it. */
export function toShown(typed: string, model: ListedModel, description: ModelDescription): object {
  const { template, projector, modelfile, parameters } = description;
  const { created_at, record } = model;
  return {
    ...given({ license: record?.license ?? undefined }),
    modelfile,
    parameters: parameters.join('\n'),
    template: template ?? '',
    ...given({ system: record?.settings?.system }),
    details: detailsOf(model),
    ...given({ remote_model: remoteModelOf(model) }),
    model_info: infoOf(typed, model, description),
    ...given({ projector_info: projector ?? undefined }),
    capabilities: [...capabilitiesOf(model, description)],
    modified_at: created_at,
  };
}

function infoOf(typed: string, { context_length, record }: ListedModel, { metadata }: ModelDescription): Metadata {
  const architecture = metadata[ARCHITECTURE];
  // Not the length that the model was trained for: clients fit their prompts to it.
  const length = { [`${String(architecture)}.context_length`]: context_length };
  return {
    ...given({ 'general.parameter_count': record?.parameters ?? undefined }),
    ...metadata,
    // Visual Studio Code shows it as the model's name. The file's is the same for all sizes of a family.
    'general.basename': typed,
    ...(architecture === undefined || context_length === null ? {} : length),
  };
}

/** Description of a model that has no file here. */
export function describedByName({ id, owner }: ListedModel): ModelDescription {
  return { ...NO_FACTS, metadata: { [ARCHITECTURE]: owner }, modelfile: `FROM ${id}` };
}

/** Ollama's names; those that it does not have are ours. */
const CAPABILITIES: Readonly<Record<Capability, string>> = {
  chat: 'completion',
  completion: 'completion',
  embedding: 'embedding',
  rerank: 'rerank',
  tools: 'tools',
  thinking: 'thinking',
  vision: 'vision',
  audio: 'audio',
};

function capabilitiesOf(
  { capabilities, capabilities_tried }: ListedModel,
  description: ModelDescription,
): ReadonlySet<string> {
  const guessed = capabilities_tried || !capabilities.includes('chat') ? [] : guessedFrom(description);
  const names = [...capabilities, ...guessed].map((each) => CAPABILITIES[each]);
  return new Set(description.fillsGaps && capabilities.includes('completion') ? [...names, 'insert'] : names);
}

/** Tags around the reasoning, and the variables for it. */
const THINKS = /think>|\[THINK\]|<\|channel|enable_thinking|reasoning_content/;

/**
 * Guesses from the files the capabilities that a load tests. Editors ask before the first load and cache the answer, so
 * a guess is better than none, as in Ollama.
 */
function guessedFrom({ metadata, template, projector }: ModelDescription): Capability[] {
  const signs: readonly (readonly [Capability, boolean])[] = [
    ['tools', template?.includes('tools') === true || metadata['tokenizer.chat_template.tool_use'] !== undefined],
    ['thinking', template !== null && THINKS.test(template)],
    ['vision', projector?.['clip.has_vision_encoder'] === true],
    ['audio', projector?.['clip.has_audio_encoder'] === true],
  ];
  return signs.flatMap(([capability, isLikely]) => (isLikely ? [capability] : []));
}
