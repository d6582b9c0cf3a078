/** Routes that only the console uses. */
export const PATHS = {
  live: '/v1/runtime/live',
  cancel: '/v1/runtime/requests/cancel',
  doctor: '/v1/runtime/doctor',
  logs: '/v1/runtime/logs',
  usage: '/v1/runtime/usage',
  keys: '/v1/runtime/keys',
  removeKey: '/v1/runtime/keys/remove',
} as const;
