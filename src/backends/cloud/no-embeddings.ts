/** Vectors are made on this machine only. */
import { SvcError } from '../../protocol/errors.ts';

export function refuseEmbeddings(provider: string): never {
  throw new SvcError('INVALID_REQUEST', `${provider}: svc asks no provider for vectors yet`, {
    hint: 'use a local model that is made for it: svc model list',
    param: 'model',
  });
}
