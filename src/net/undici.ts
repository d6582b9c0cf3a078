/** undici, loaded when it is first used: not every daemon and few commands ask another server for something. */
import type * as Undici from 'undici';

export async function loadUndici(): Promise<typeof Undici> {
  // Of a CommonJS package, the bundler gives import() the default export alone.
  return (await import('undici')).default as unknown as typeof Undici;
}
