/** Valid bodies of the routes that the console uses. */
import { CONTROL_ROUTES, HTTP_ROUTES } from '../../../src/protocol/routes.ts';
import type { Body } from './json.ts';

export const CONSOLE_BODIES: readonly Body[] = [
  {
    path: HTTP_ROUTES.runtimeLoad,
    control: false,
    value: { model: 'tiny', context_length: 1, keep_alive_seconds: 1, pin: false },
  },
  { path: HTTP_ROUTES.runtimeUnload, control: false, value: { model: 'tiny' } },
  { path: HTTP_ROUTES.runtimePull, control: false, value: { model: 'nothing', sha256: 'a' } },
  {
    path: HTTP_ROUTES.runtimeQuantize,
    control: false,
    value: { model: 'tiny', type: 'none', name: 'a', allow_requantize: true },
  },
  { path: HTTP_ROUTES.runtimeVerify, control: false, value: { model: 'tiny' } },
  { path: HTTP_ROUTES.runtimeImport, control: false, value: { models: ['ollama:none'] } },
  { path: HTTP_ROUTES.runtimeRemove, control: false, value: { model: 'copy' } },
  { path: HTTP_ROUTES.runtimeDefault, control: false, value: { model: 'tiny' } },
  { path: HTTP_ROUTES.runtimeCancel, control: false, value: { id: 'a' } },
  {
    path: HTTP_ROUTES.runtimeKeys,
    control: false,
    value: {
      name: 'a',
      scope: 'local',
      models: ['b'],
      tokens_per_day: 1,
      tokens_per_month: 1,
      expires_at: '2027-01-01T00:00:00Z',
    },
  },
  { path: HTTP_ROUTES.runtimeKeysRemove, control: false, value: { name: 'a' } },
  { path: HTTP_ROUTES.signIn, control: false, value: { token: 'x' } },
  { path: CONTROL_ROUTES.consoleLink, control: true, value: { file: true } },
];
