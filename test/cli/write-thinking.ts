/** Writes an answer with reasoning, as `svc run` does. Started on a terminal and in a pipe by fold.test.ts. */
import { openWriter } from '../../src/cli/asking/writer.ts';

async function main(unfolded: boolean): Promise<void> {
  const writer = await openWriter(false, unfolded);
  writer.onReasoning('Is it seven ');
  // The first line is drawn once this is loaded.
  await import('../../src/cli/terminal/width.ts');
  writer.onReasoning('or eight?\n');
  writer.onText('It is **seven**');
  writer.onReasoning('Surely.');
  writer.onText(', I think.\n');
  writer.end();
  writer.onReasoning('Cut off');
  writer.end();
}

await main(process.argv[2] === 'unfolded');
