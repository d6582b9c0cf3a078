/** The version that is installed where this process was started from: it changes when svc is updated in place. */
import { stat } from 'node:fs/promises';
import { readText } from '../files/open-file.ts';
import { parsedJson } from '../protocol/foreign-text.ts';
import { MANIFEST, VERSION } from './version.ts';

export class InstalledVersion {
  #version: string | null = VERSION;
  /** Identity of the file that was read last; null: none was read. */
  #seen: string | null = null;

  /** As of the last `check`. null: there is no package any more. */
  get version(): string | null {
    return this.#version;
  }

  /**
   * Reads the package's manifest if it has changed; resolves with the reason of the condition `version`. Never rejects.
   */
  async check(): Promise<string> {
    // The version of another executable shows only when it runs.
    if (MANIFEST === null) return VERSION;
    try {
      const { ino, mtimeMs, size } = await stat(MANIFEST);
      const seen = [ino, mtimeMs, size].join(' ');
      if (seen !== this.#seen) this.#version = versionIn(await readText(MANIFEST));
      this.#seen = seen;
    } catch {
      this.#version = this.#seen = null;
    }
    return describe(this.#version);
  }
}

/** Returns null for a file that is only half written. */
function versionIn(manifest: string): string | null {
  const { version } = (parsedJson(manifest) ?? {}) as { version?: unknown };
  return typeof version === 'string' ? version.slice(0, 64) : null;
}

function describe(installed: string | null): string {
  if (installed === VERSION) return VERSION;
  if (installed === null) return `${VERSION} runs, and its files are gone: install svc again, then \`svc restart\``;
  return `${VERSION} runs, ${installed} is installed: \`svc restart\` starts it`;
}
