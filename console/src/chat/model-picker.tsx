import type { JSX } from 'preact';
import type { Model } from '../../../src/protocol/openai/model.ts';
import { chatModels } from './models.ts';
import { configure } from './conversations.ts';
import type { Conversation } from './conversation.ts';

const GROUPS: readonly { readonly kind: Model['kind']; readonly label: string }[] = [
  { kind: 'local', label: 'On this machine' },
  { kind: 'provider', label: 'Providers' },
  { kind: 'policy', label: 'Policies' },
];

/** Chooses the model of a conversation. A name that is no longer listed stays, so that the request says why. */
export function ModelPicker({ conversation: { id, model } }: { readonly conversation: Conversation }): JSX.Element {
  const models = chatModels.value;
  const isListed = model === '' || models.some((each) => each.id === model);
  return (
    <select
      class="model-picker"
      aria-label="Model"
      value={model}
      onChange={({ currentTarget }) => configure(id, { model: currentTarget.value })}
    >
      <option value="">Default model</option>
      {GROUPS.map(({ kind, label }) => {
        const group = models.filter((each) => each.kind === kind);
        return (
          group.length > 0 && (
            <optgroup key={kind} label={label}>
              {group.map((each) => (
                <option key={each.id} value={each.id}>
                  {each.id}
                </option>
              ))}
            </optgroup>
          )
        );
      })}
      {!isListed && <option value={model}>{model}</option>}
    </select>
  );
}
