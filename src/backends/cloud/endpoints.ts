/** Where a request goes. A provider with one endpoint has no choice; a cluster chooses here. */
import type { SvcError } from '../../protocol/errors.ts';
import type { GenerateRequest } from '../../protocol/generate.ts';
import { Transport } from './transport.ts';
import type { Provider } from './provider.ts';

export interface Endpoints {
  /** null: anyone can answer, as when the models are asked for. */
  pick(request: GenerateRequest | null): Transport;
  close(): Promise<void>;
  destroy(error: SvcError): Promise<void>;
}

export function endpointsOf({ endpoints, isDeclared, idleTimeoutMs }: Provider): Endpoints {
  const transport = new Transport({ baseUrl: endpoints[0] ?? '', isDeclared, idleTimeoutMs });
  return {
    pick: () => transport,
    close: () => transport.close(),
    destroy: (error) => transport.destroy(error),
  };
}
