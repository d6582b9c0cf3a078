import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { Model } from '../../../src/protocol/openai/model.ts';
import { chatModels } from './models.ts';
import { configure } from './conversations.ts';
import type { Conversation } from './conversation.ts';

const GROUPS: readonly { readonly kind: Model['kind']; readonly label: string }[] = [
  { kind: 'local', label: 'On this machine' },
  { kind: 'provider', label: 'Providers' },
  { kind: 'policy', label: 'Policies' },
];
/** Value of the last option. No model has a name with spaces. */
const OTHER = 'another name';

/**
 * Chooses the model of a conversation; any name can be typed, as providers have more models than are listed. A name
 * that is no longer listed stays, so that the request says why.
 */
export function ModelPicker({ conversation: { id, model } }: { readonly conversation: Conversation }): JSX.Element {
  const [isTyping, setTyping] = useState(false);
  const choose = (name: string): void => {
    setTyping(name === OTHER);
    if (name !== OTHER) configure(id, { model: name });
  };
  if (isTyping) return <NameField onDone={(name) => choose(name ?? model)} />;
  const models = chatModels.value;
  const isListed = model === '' || models.some((each) => each.id === model);
  return (
    <select
      class="model-picker"
      aria-label="Model"
      value={model}
      onChange={({ currentTarget }) => choose(currentTarget.value)}
    >
      <option value="">Default model</option>
      {GROUPS.map(({ kind, label }) => {
        const names = models.filter((each) => each.kind === kind).map((each) => each.id);
        return names.length > 0 && <Group key={kind} label={label} names={names} />;
      })}
      {!isListed && <option value={model}>{model}</option>}
      <option value={OTHER}>Another name…</option>
    </select>
  );
}

function Group({ label, names }: { readonly label: string; readonly names: readonly string[] }): JSX.Element {
  return (
    <optgroup label={label}>
      {names.map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </optgroup>
  );
}

/** `onDone`: null keeps the model. */
function NameField({ onDone }: { onDone(name: string | null): void }): JSX.Element {
  const [name, setName] = useState('');
  const finish = (): void => onDone(name.trim() === '' ? null : name.trim());
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === 'Enter') finish();
    if (event.key === 'Escape') onDone(null);
  };
  return (
    <input
      class="model-name"
      aria-label="Name of the model"
      placeholder="provider/model"
      spellcheck={false}
      autocapitalize="off"
      ref={(field) => field?.focus()}
      value={name}
      onInput={({ currentTarget }) => setName(currentTarget.value)}
      onKeyDown={onKeyDown}
      onBlur={finish}
    />
  );
}
