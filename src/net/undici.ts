/** undici, loaded when it is first used: not every daemon and few commands ask another server for something. */
import type * as Undici from 'undici';

export async function loadUndici(): Promise<typeof Undici> {
  // undici is CommonJS. In the bundle, such a package has only a default export when it is loaded by import().
  return (await import('undici')).default as unknown as typeof Undici;
}
