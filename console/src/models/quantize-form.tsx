/** Asks how a model is to be quantised, and begins it. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { COMMON_TYPES } from '../../../src/protocol/model/quantize.ts';
import type { ModelRecord } from '../../../src/protocol/records.ts';
import { Modal } from '../parts/modal.tsx';
import { quantize } from './works.ts';

/** Types whose weights are not quantised. */
const ORIGINALS = ['F32', 'F16', 'BF16'];

interface Props {
  readonly model: ModelRecord;
  onClose(): void;
}

export function QuantizeForm({ model: { id, quantization }, onClose }: Props): JSX.Element {
  const [type, setType] = useState('Q4_K_M');
  const [name, setName] = useState('');
  const [isAllowed, setAllowed] = useState(false);
  const isOriginal = quantization === null || ORIGINALS.includes(quantization);
  const submit = (event: Event): void => {
    event.preventDefault();
    const named = name.trim() === '' ? {} : { name: name.trim() };
    void quantize({ model: id, type, ...named, ...(isAllowed ? { allow_requantize: true } : {}) });
    onClose();
  };
  return (
    <Modal title={`Quantize ${id}`} onClose={onClose}>
      <form class="fields" onSubmit={submit}>
        <p class="muted">Makes a smaller, faster copy. The model itself stays as it is.</p>
        <label>
          Type
          <select value={type} onChange={({ currentTarget }) => setType(currentTarget.value)}>
            {Object.entries(COMMON_TYPES).map(([each, about]) => (
              <option key={each} value={each}>
                {`${each}: ${about}`}
              </option>
            ))}
          </select>
        </label>
        <label>
          Name of the copy
          <input
            autocomplete="off"
            spellcheck={false}
            autocapitalize="off"
            placeholder="Made from the model's name and the type"
            value={name}
            onInput={({ currentTarget }) => setName(currentTarget.value)}
          />
        </label>
        {!isOriginal && (
          <label class="check">
            <input
              type="checkbox"
              checked={isAllowed}
              onChange={({ currentTarget }) => setAllowed(currentTarget.checked)}
            />
            {`Accept that ${quantization} is quantised already, and loses quality twice`}
          </label>
        )}
        <div class="row end">
          <button type="submit" class="primary" disabled={!isOriginal && !isAllowed}>
            Quantize
          </button>
        </div>
      </form>
    </Modal>
  );
}
