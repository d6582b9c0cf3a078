/** docs/benchmarks.md has one section per benchmark; each benchmark replaces only its own section. */
import { readFile, writeFile } from 'node:fs/promises';
import { cpus, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';

const PAGE = fileURLToPath(new URL('../docs/benchmarks.md', import.meta.url));
const HEAD = `# Benchmarks

A section that names an \`npm run\` command is written by that command, which anyone can run again. The others are written by hand.
`;

/** Adds or replaces a section. `text` begins with a second-level heading, which identifies the section. */
export async function writeSection(text: string): Promise<void> {
  const before = await readFile(PAGE, 'utf8').catch(() => HEAD);
  const [head = HEAD, ...sections] = before.split(/^(?=## )/m);
  const headingOf = (section: string): string => section.slice(0, section.indexOf('\n'));
  const others = sections.map((section) => section.trimEnd());
  const at = others.findIndex((section) => headingOf(`${section}\n`) === headingOf(text));
  if (at === -1) others.push(text.trimEnd());
  else others[at] = text.trimEnd();
  await writeFile(PAGE, `${[head.trimEnd(), ...others].join('\n\n')}\n`);
}

export function machine(): string {
  const [cpu] = cpus();
  const memory = `${(totalmem() / 2 ** 30).toFixed(0)} GiB`;
  return `${String(cpus().length)} × ${cpu?.model.trim() ?? 'unknown'}, ${memory}, Node ${process.version}`;
}
