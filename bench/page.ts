/** docs/benchmarks.md has one section per benchmark; each benchmark replaces only its own section. */
import { readFile, writeFile } from 'node:fs/promises';
import { cpus, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';

const PAGE = fileURLToPath(new URL('../docs/benchmarks.md', import.meta.url));
const HEAD = `# Benchmarks

A section that names an \`npm run\` command is written by that command, which anyone can run again. The others are written
by hand.
`;
const WIDTH = 120;

/** Adds or replaces a section. `text` begins with a second-level heading, which identifies the section. */
export async function writeSection(text: string): Promise<void> {
  const before = await readFile(PAGE, 'utf8').catch(() => HEAD);
  const [head = HEAD, ...sections] = before.split(/^(?=## )/m);
  const headingOf = (section: string): string => section.slice(0, section.indexOf('\n'));
  const others = sections.map((section) => section.trimEnd());
  const at = others.findIndex((section) => headingOf(`${section}\n`) === headingOf(text));
  const section = wrapped(text).trimEnd();
  if (at === -1) others.push(section);
  else others[at] = section;
  await writeFile(PAGE, `${[head.trimEnd(), ...others].join('\n\n')}\n`);
}

/** Wraps paragraphs and list items at the width of the documentation. Tables, headings and code stay as they are. */
export function wrapped(text: string): string {
  const isProse = (line: string | undefined): boolean => /^[^|#\s]/.test(line ?? '');
  const lines: string[] = [];
  for (const line of text.split('\n')) {
    if (isProse(line) && isProse(lines.at(-1)) && !line.startsWith('- ')) lines.push(`${lines.pop() ?? ''} ${line}`);
    else lines.push(line);
  }
  return lines.map((line) => (isProse(line) ? filled(line) : line)).join('\n');
}

function filled(paragraph: string): string {
  const indent = paragraph.startsWith('- ') ? '  ' : '';
  const lines: string[] = [];
  for (const word of paragraph.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= WIDTH) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(last === undefined ? word : indent + word);
  }
  return lines.join('\n');
}

export function machine(): string {
  const [cpu] = cpus();
  const memory = `${(totalmem() / 2 ** 30).toFixed(0)} GiB`;
  return `${String(cpus().length)} × ${cpu?.model.trim() ?? 'unknown'}, ${memory}, Node ${process.version}`;
}
