/** Default metrics of prom-client, one in each file; the package declares no types for them. */
declare module 'prom-client/lib/metrics/*' {
  import type { Registry } from 'prom-client';
  const register: (registry: Registry) => void;
  export = register;
}
