/** Routes that only the console uses. */
export const PATHS = {
  signIn: '/v1/runtime/sign-in',
  catalogue: '/v1/runtime/catalogue',
  providers: '/v1/runtime/providers',
  load: '/v1/runtime/load',
  unload: '/v1/runtime/unload',
  pull: '/v1/runtime/pull',
  remove: '/v1/runtime/remove',
  makeDefault: '/v1/runtime/default',
  live: '/v1/runtime/live',
  cancel: '/v1/runtime/requests/cancel',
  doctor: '/v1/runtime/doctor',
  logs: '/v1/runtime/logs',
  usage: '/v1/runtime/usage',
  keys: '/v1/runtime/keys',
  removeKey: '/v1/runtime/keys/remove',
} as const;
