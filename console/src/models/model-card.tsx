/** One installed model, and what can be done with it. */
import type { JSX } from 'preact';
import { HTTP_ROUTES } from '../../../src/protocol/routes.ts';
import { useState } from 'preact/hooks';
import type { LoadedModel, ModelRecord } from '../../../src/protocol/records.ts';
import { ApiError } from '../api/api-error.ts';
import { ask } from '../api/request.ts';
import { configure, current, startNew } from '../chat/conversations.ts';
import { progressLine, progressValue } from '../parts/byte-figures.ts';
import { bytes, count, factLine, short } from '../parts/format.ts';
import { Problem } from '../parts/problem.tsx';
import { show } from '../state/view.ts';
import { load, loading, unload } from './load.ts';
import { QuantizeForm } from './quantize-form.tsx';
import { WorkProgress } from './work-progress.tsx';
import { verify, works } from './works.ts';

interface Props {
  readonly model: ModelRecord;
  /** Reads the list again. */
  onChange(): Promise<void>;
}

export function ModelCard({ model, onChange }: Props): JSX.Element {
  const [error, setError] = useState<ApiError | null>(null);
  const [isBusy, setBusy] = useState(false);
  const { id, state } = model;
  const figures = loading.value.get(id);
  const act = async (work: () => Promise<unknown>): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      await work();
    } catch (thrown) {
      setError(ApiError.from(thrown));
    }
    setBusy(false);
    await onChange();
  };
  return (
    <li class="card model" data-model={id}>
      <div class="card-head">
        <h3>{id}</h3>
        <span class="badges">
          {model.default && <span class="badge accent">default</span>}
          <span class={`badge ${state}`}>{state}</span>
        </span>
      </div>
      <p class="muted figures">{described(model)}</p>
      {model.loaded !== null && <p class="figures">{loadedAs(model.loaded)}</p>}
      {figures !== undefined && <progress aria-label={`Loading ${id}`} {...progressValue(figures)} />}
      {figures !== undefined && figures.totalBytes > 0 && <p class="muted figures">{progressLine(figures)}</p>}
      {works.value
        .filter((work) => work.model === id)
        .map((work) => (
          <WorkProgress key={work.title} work={work} />
        ))}
      {error !== null && <Problem error={error} />}
      <div class="row actions">
        <Actions model={model} isBusy={isBusy} act={(work) => void act(work)} />
      </div>
    </li>
  );
}

interface ActionsProps {
  readonly model: ModelRecord;
  readonly isBusy: boolean;
  act(work: () => Promise<unknown>): void;
}

function Actions({ model, isBusy, act }: ActionsProps): JSX.Element {
  const { id, state, default: isDefault, builtin, from } = model;
  const [isSure, setSure] = useState(false);
  const body = { model: id };
  const chat = (): void => {
    startNew();
    configure(current.value.id, { model: id });
    show('chat');
  };
  return (
    <>
      <button type="button" aria-label={`Chat with ${id}`} onClick={chat}>
        Chat
      </button>
      {state === 'loaded' ? (
        <button type="button" disabled={isBusy} aria-label={`Unload ${id}`} onClick={() => act(() => unload(id))}>
          Unload
        </button>
      ) : (
        <button type="button" disabled={isBusy} aria-label={`Load ${id}`} onClick={() => act(() => load(id))}>
          Load
        </button>
      )}
      {from === undefined && <WorkButtons model={model} />}
      {!isDefault && (
        <button
          type="button"
          class="quiet"
          disabled={isBusy}
          aria-label={`Make default: ${id}`}
          onClick={() => act(() => ask(HTTP_ROUTES.runtimeDefault, { body }))}
        >
          Make default
        </button>
      )}
      {!builtin && from === undefined && (
        <button
          type="button"
          class={isSure ? 'danger' : 'quiet'}
          disabled={isBusy}
          aria-label={isSure ? `Really remove ${id}` : `Remove ${id}`}
          onBlur={() => setSure(false)}
          onClick={() => (isSure ? act(() => ask(HTTP_ROUTES.runtimeRemove, { body })) : setSure(true))}
        >
          {isSure ? 'Really remove' : 'Remove'}
        </button>
      )}
    </>
  );
}

/** Long work on an installed model. */
function WorkButtons({ model }: { readonly model: ModelRecord }): JSX.Element {
  const [isAsking, setAsking] = useState(false);
  const { id } = model;
  const isBusy = works.value.some((work) => work.model === id && work.state === 'running');
  return (
    <>
      <button
        type="button"
        class="quiet"
        disabled={isBusy || model.state === 'failed'}
        aria-label={`Quantize ${id}…`}
        onClick={() => setAsking(true)}
      >
        Quantize…
      </button>
      <button type="button" class="quiet" disabled={isBusy} aria-label={`Verify ${id}`} onClick={() => void verify(id)}>
        Verify
      </button>
      {isAsking && <QuantizeForm model={model} onClose={() => setAsking(false)} />}
    </>
  );
}

function described({ parameters, quantization, size_bytes, context_length, capabilities, from }: ModelRecord): string {
  return factLine([
    from === undefined ? null : `made from ${from}`,
    parameters === null ? null : `${short(parameters)} parameters`,
    quantization,
    bytes(size_bytes),
    context_length === null ? null : `context ${count(context_length)}`,
    capabilities.join(', '),
  ]);
}

function loadedAs({ device, placement, memory_bytes, context_length, active }: LoadedModel): string {
  const running = active === 0 ? 'idle' : `${count(active)} running`;
  return factLine([
    `On ${device}`,
    ...partsOnCpu(placement),
    `${bytes(memory_bytes)} of memory`,
    `context ${count(context_length)}`,
    running,
  ]);
}

/** What of a model on a GPU is not there. */
function partsOnCpu(placement: LoadedModel['placement']): string[] {
  if (placement === null || placement.gpu_layers === 0) return [];
  const { layers, gpu_layers, cpu_experts } = placement;
  return [
    ...(gpu_layers < layers ? [`${count(gpu_layers)} of ${count(layers)} layers`] : []),
    ...(cpu_experts > 0 ? [`experts of ${count(cpu_experts)} layers in memory`] : []),
  ];
}
