/** Compares the texts of docs/reliability.md with those in the source of svc and of the faults. */
import { getSystemErrorMap } from 'node:util';
import { read, trackedFiles } from '../architecture/source-files.ts';

/** Number of words from which a part of a text is looked for: shorter ones are anywhere by chance. */
const LEAST_WORDS = 4;

/** What svc puts into its texts; it cuts them into the parts that the source has. */
const VALUES =
  /\$SVC_HOME\S*|["“”'`\\/^$]|[,;:()]|\b[\d.]+\b|\b(?:tiny|builtin|farm|linux-x64|SIG[A-Z]+|E[A-Z]{3,})\b/g;

const sources = trackedFiles().filter((path) => /^(src|native|test\/chaos)\/.*\.(ts|cc|h)$/.test(path));

const corpus = [...sources.map(read), ...Array.from(getSystemErrorMap().values(), ([, message]) => message)]
  .join('\n')
  // Joins the parts of a literal, and takes away what a template puts in.
  .replaceAll(/["'`]\s*\+?\s*["'`]/g, '')
  .replaceAll(/\$\{[^}]*\}|["'`\\/^$()]/g, ' ')
  .replaceAll(/\s+/g, ' ')
  .toLowerCase();

/** Returns the first part of a text that is nowhere in the source; null: none. */
export function missingPart(text: string): string | null {
  const parts = text.split(VALUES).map((part) => part.trim());
  return parts.find((part) => part.split(' ').length >= LEAST_WORDS && !corpus.includes(part.toLowerCase())) ?? null;
}
