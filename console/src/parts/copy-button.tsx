import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { announce } from './announcer.tsx';
import { Icon } from './icon.tsx';

const SHOWN_MS = 1500;

/** Copies a text. `label` completes "Copy …". */
export function CopyButton({ text, label }: { readonly text: string; readonly label: string }): JSX.Element {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setCopied(false), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = async (): Promise<void> => {
    const isDone = await copyText(text);
    announce(isDone ? 'Copied' : 'The browser does not allow copying');
    setCopied(isDone);
  };
  return (
    <button type="button" class="quiet small" aria-label={`Copy ${label}`} onClick={() => void copy()}>
      <Icon name={isCopied ? 'check' : 'copy'} />
    </button>
  );
}

/** Returns false if the browser refuses, as it does on a page that came over plain HTTP from another machine. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
