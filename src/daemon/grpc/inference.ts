/** svc.v1.Inference.Generate: from the message to the request of every hop, and its events back. */
import type { Definitions } from '../../grpc/definitions.ts';
import { toRequest } from '../../grpc/records.ts';
import { SvcError } from '../../protocol/errors.ts';
import {
  GenerateRequestSchema,
  type GenerateEvent,
  type GenerateRequest,
  type RouteEvent,
} from '../../protocol/generate.ts';
import { parse } from '../../protocol/validate.ts';
import type { Services } from '../services.ts';
import type { Calls, StreamCall, StreamHandler } from './calls.ts';

/** The longest deadline that counts; a later one is none. */
const MAX_TIMEOUT_MS = 86_400_000;

/** `bytesLeft`: of the text of all requests together. */
export function inference(
  calls: Calls,
  services: Services,
  definitions: Definitions,
  bytesLeft: number,
): Record<string, StreamHandler> {
  return {
    Generate: calls.stream(async (call) => {
      const request = readRequest(definitions, call);
      const bytes = Buffer.byteLength(JSON.stringify(request.messages));
      if (bytes > bytesLeft) throw new SvcError('BUSY', 'too many large requests at once');
      bytesLeft -= bytes;
      try {
        const { id, arrivedAt, signal } = call;
        for await (const event of services.router.route(request, { traceId: id, arrivedAt, signal })) {
          await call.write(toMessage(event));
        }
      } finally {
        bytesLeft += bytes;
      }
    }),
  };
}

function readRequest(definitions: Definitions, { request, timeoutMs }: StreamCall): GenerateRequest {
  const fields = toRequest(definitions, 'svc.v1.GenerateRequest', request);
  const sampling = fields['sampling'] as { logit_bias: { token: number; bias: number }[] } | undefined;
  const parsed = parse(GenerateRequestSchema, {
    ...fields,
    ...(sampling === undefined
      ? {}
      : { sampling: { ...sampling, logit_bias: sampling.logit_bias.map(({ token, bias }) => [token, bias]) } }),
    ...(timeoutMs === null || timeoutMs > MAX_TIMEOUT_MS ? {} : { timeout_ms: Math.ceil(timeoutMs) }),
  });
  if (parsed.model?.startsWith('file:') === true) {
    throw new SvcError('MODEL_NOT_FOUND', 'a model is named by its id here, not by a file', {
      hint: 'register the file with `svc model add FILE`',
      param: 'model',
    });
  }
  return parsed;
}

function toMessage(event: RouteEvent | GenerateEvent): object {
  const { type, ...fields } = event;
  return { [type]: 'route' in fields ? { trace_id: fields.trace_id, ...fields.route } : fields };
}
