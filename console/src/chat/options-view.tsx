/** Instructions, sampling and tools of a conversation. */
import type { JSX, TargetedEvent } from 'preact';
import { Modal } from '../parts/modal.tsx';
import type { Conversation, Options } from './conversation.ts';
import { configure } from './conversations.ts';

interface Props {
  readonly conversation: Conversation;
  onClose(): void;
}

const EFFORTS: readonly { readonly value: Options['effort']; readonly label: string }[] = [
  { value: '', label: 'As the model does' },
  { value: 'none', label: 'None' },
  { value: 'low', label: 'Little' },
  { value: 'medium', label: 'Some' },
  { value: 'high', label: 'Much' },
];

export function OptionsView({ conversation: { id, options }, onClose }: Props): JSX.Element {
  const change = (next: Partial<Options>): void => configure(id, { options: { ...options, ...next } });
  return (
    <Modal title="Options of this conversation" onClose={onClose}>
      <form class="fields" method="dialog" onSubmit={onClose}>
        <label>
          Instructions
          <textarea
            rows={4}
            placeholder="For instance: answer briefly, in French."
            value={options.system}
            onInput={({ currentTarget }) => change({ system: currentTarget.value })}
          />
        </label>
        <div class="pair">
          <NumberField
            label="Temperature"
            value={options.temperature}
            limits={{ min: 0, max: 2, step: 0.1 }}
            onChange={(temperature) => change({ temperature })}
          />
          <NumberField
            label="Most tokens"
            value={options.maxTokens}
            limits={{ min: 1, max: 1_048_576, step: 1 }}
            onChange={(maxTokens) => change({ maxTokens })}
          />
        </div>
        <EffortField value={options.effort} onChange={(effort) => change({ effort })} />
        <label>
          Tools, a JSON array
          <textarea
            rows={3}
            class="code-field"
            spellcheck={false}
            placeholder={'[{"name": "weather", "parameters": {"type": "object"}}]'}
            value={options.tools}
            onInput={({ currentTarget }) => change({ tools: currentTarget.value })}
          />
        </label>
        <div class="row end">
          <button type="submit" class="primary">
            Done
          </button>
        </div>
      </form>
    </Modal>
  );
}

interface EffortProps {
  readonly value: Options['effort'];
  onChange(value: Options['effort']): void;
}

function EffortField({ value: chosen, onChange }: EffortProps): JSX.Element {
  return (
    <label>
      Thinking
      <select value={chosen} onChange={({ currentTarget }) => onChange(currentTarget.value as Options['effort'])}>
        {EFFORTS.map(({ value, label }) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </select>
    </label>
  );
}

interface NumberProps {
  readonly label: string;
  readonly value: number | null;
  readonly limits: { readonly min: number; readonly max: number; readonly step: number };
  onChange(value: number | null): void;
}

function NumberField({ label, value, limits, onChange }: NumberProps): JSX.Element {
  const onInput = ({ currentTarget: { value: text, valueAsNumber } }: TargetedEvent<HTMLInputElement>): void =>
    onChange(text === '' || Number.isNaN(valueAsNumber) ? null : valueAsNumber);
  return (
    <label>
      {label}
      <input type="number" {...limits} placeholder="As the model does" value={value ?? ''} onInput={onInput} />
    </label>
  );
}
