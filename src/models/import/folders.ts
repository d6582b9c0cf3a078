/** Where other programs keep their models. */
import path from 'node:path';
import type { Program } from '../../protocol/model/import.ts';

export interface Surroundings {
  readonly platform: NodeJS.Platform;
  readonly home: string;
  variable(name: 'OLLAMA_MODELS' | 'HF_HUB_CACHE' | 'HF_HOME' | 'XDG_CACHE_HOME'): string | undefined;
}

/** Folders in which a program may have its models; a variable of the program replaces its usual ones. */
export function foldersOf(program: Program, { platform, home, variable }: Surroundings): string[] {
  const { join } = platform === 'win32' ? path.win32 : path.posix;
  switch (program) {
    case 'ollama': {
      const chosen = variable('OLLAMA_MODELS');
      if (chosen !== undefined) return [chosen];
      // As a service, Ollama has a user of its own.
      const service = ['/usr/share/ollama/.ollama/models', '/var/lib/ollama/models', '/var/lib/ollama/.ollama/models'];
      return [join(home, '.ollama', 'models'), ...(platform === 'linux' ? service : [])];
    }
    case 'lmstudio':
      return [join(home, '.lmstudio', 'models'), join(home, '.cache', 'lm-studio', 'models')];
    case 'hf': {
      const hub = variable('HF_HUB_CACHE');
      if (hub !== undefined) return [hub];
      const base = variable('HF_HOME');
      if (base !== undefined) return [join(base, 'hub')];
      return [join(variable('XDG_CACHE_HOME') ?? join(home, '.cache'), 'huggingface', 'hub')];
    }
  }
}
