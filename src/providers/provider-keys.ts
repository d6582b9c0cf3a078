/**
 * Where the key of each provider comes from. In this order: the variable that the config names; the
 * credentials file; a variable that the catalogue knows; what somebody lent until the daemon ends. A
 * stored key goes before the catalogue's variables, because the environment of a daemon is as old as the
 * daemon, and a key that is given to svc has to count at once.
 *
 * There is no keyring: where nobody is logged in at a desktop it forgets with the session, or asks.
 */
import { Credentials } from '../config/credentials-file.ts';
import { keyIn } from '../config/environment.ts';
import type { ProviderRecord } from '../protocol/records.ts';

export interface KeyPlaces {
  readonly provider: string;
  /** The config's `api_key_env`. */
  readonly variable: string | undefined;
  /** The catalogue's variables. */
  readonly usualVariables: readonly string[];
  /** Whether the provider answers nobody without one. */
  readonly isNeeded: boolean;
}

type Credential = ProviderRecord['credential'];

export class ProviderKeys {
  readonly #file: Credentials;
  readonly #lent = new Map<string, string>();

  constructor(credentialsFile: string) {
    this.#file = new Credentials(credentialsFile);
  }

  /** In memory only. */
  lend(provider: string, key: string): void {
    this.#lent.set(provider, key);
  }

  /** Where it would be read now, without it. Never throws: a file that cannot be used holds nothing. */
  credential(places: KeyPlaces): Credential {
    try {
      const found = this.#find(places);
      if (found !== null) return found.credential;
    } catch {
      return { source: 'file', name: 'credentials.json', present: false };
    }
    const name = places.variable ?? places.usualVariables[0] ?? null;
    if (name !== null) return { source: 'env', name, present: false };
    if (places.isNeeded) return { source: 'file', name: 'credentials.json', present: false };
    return { source: 'none', name: null, present: false };
  }

  /** null: there is none. Throws CONFIG_INVALID when the file cannot be used. */
  read(places: KeyPlaces): string | null {
    return this.#find(places)?.key ?? null;
  }

  #find({ provider, variable, usualVariables }: KeyPlaces): { key: string; credential: Credential } | null {
    const inEnvironment = (names: readonly string[]): { key: string; credential: Credential } | null => {
      for (const name of names) {
        const key = keyIn(name);
        if (key !== undefined) return { key, credential: { source: 'env', name, present: true } };
      }
      return null;
    };
    if (variable !== undefined) return inEnvironment([variable]) ?? this.#lentTo(provider);
    const stored = this.#file.keyOf(provider);
    if (stored !== null) {
      return { key: stored, credential: { source: 'file', name: 'credentials.json', present: true } };
    }
    return inEnvironment(usualVariables) ?? this.#lentTo(provider);
  }

  #lentTo(provider: string): { key: string; credential: Credential } | null {
    const key = this.#lent.get(provider);
    return key === undefined ? null : { key, credential: { source: 'memory', name: null, present: true } };
  }
}
