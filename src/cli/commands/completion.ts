import { SHELLS } from './completion/shells.ts';
import type { Run, Spec } from '../spec.ts';
import { print } from '../terminal/output.ts';

export const spec = {
  summary: 'Print the completion script for a shell',
  detail: [
    'bash: `svc completion bash > ~/.local/share/bash-completion/completions/svc`. zsh: save it as `_svc` in a directory of $fpath. fish: `svc completion fish > ~/.config/fish/completions/svc.fish`. PowerShell: add `svc completion powershell | Out-String | Invoke-Expression` to $PROFILE.',
  ],
  arguments: [{ name: 'shell', required: true, choices: ['bash', 'zsh', 'fish', 'powershell'] }],
  flags: {},
  insteadOfJson: 'the script is printed as it is, for the shell to read',
  examples: ['svc completion bash', 'svc completion zsh', 'svc completion fish', 'svc completion powershell'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async (_flags, { shell }, loadSpecs) => {
  print(SHELLS[shell](Object.entries(await loadSpecs())).trimEnd());
};
