/**
 * Source of each provider's key, in this order: the variable that the config names; the credentials file; a variable
 * from the catalogue; a key lent until the daemon ends. A stored key has priority over the catalogue's variables,
 * because the daemon's environment is fixed at its start, and a newly stored key must take effect at once.
 *
 * No keyring is used: without a desktop session it loses its keys, or waits for a password.
 */
import { Credentials } from '../home/credentials-file.ts';
import { keyIn } from '../process/environment.ts';
import type { ProviderRecord } from '../protocol/records.ts';

export interface KeyPlaces {
  readonly provider: string;
  /** The config's `api_key_env`. */
  readonly variable: string | undefined;
  /** The catalogue's variables. */
  readonly usualVariables: readonly string[];
  /** True if the provider needs a key. */
  readonly isNeeded: boolean;
}

type Credential = ProviderRecord['credential'];

export class ProviderKeys {
  readonly #file: Credentials;
  readonly #lent = new Map<string, string>();

  constructor(credentialsFile: string) {
    this.#file = new Credentials(credentialsFile);
  }

  /** Keeps a key in memory only. */
  lend(provider: string, key: string): void {
    this.#lent.set(provider, key);
  }

  /** Returns the current source of the key, without the key. Never throws: an unusable file counts as empty. */
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

  /** Returns the key; null: there is none. Throws CONFIG_INVALID when the file cannot be used. */
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
