/** The help, docs/cli.md and the table of commands agree. */
import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ALIASES } from '../../src/cli/aliases.ts';
import { isCommand, loadSpecs } from '../../src/cli/commands.ts';
import { GROUPS } from '../../src/cli/groups.ts';
import { describeFlag, flagUsage, help, usageLine } from '../../src/cli/help.ts';
import type { Topic } from '../../src/cli/parse.ts';

const commands = Object.entries(await loadSpecs());
/** The help on lines without an end. */
const helpOf = (topic: Topic): Promise<string> => help(topic, Infinity);
const docs = readFileSync(new URL('../../docs/cli.md', import.meta.url), 'utf8');
const sections = new Map(
  docs
    .split('\n### svc ')
    .slice(1)
    .map((part) => [part.split('\n', 1)[0] ?? '', part]),
);

test('the overview lists every command, and the help of a group lists its commands', async () => {
  const overview = await helpOf(undefined);
  for (const [name, command] of commands) {
    assert.ok(overview.includes(`  ${name}`) && overview.includes(command.summary), name);
    const [group] = name.split(' ');
    if (name.includes(' '))
      assert.ok((await helpOf(group as Topic)).includes(command.summary), `svc ${String(group)} lacks ${name}`);
  }
  assert.not.match(await helpOf('provider'), /model (add|load)/);
});

test('the help of a command has its usage, flags, defaults and examples', async () => {
  for (const [name, command] of commands) {
    const text = await helpOf(name as Topic);
    assert.ok(text.includes(usageLine(name, command)), name);
    for (const [flag, facts] of Object.entries(command.flags)) {
      assert.ok(text.includes(flagUsage(flag, facts)) && text.includes(describeFlag(facts)), `${name} ${flag}`);
    }
    assert.ok(command.examples.length > 0, `${name} has no example`);
    for (const example of command.examples) assert.ok(text.includes(example), example);
  }
});

test('short forms are in the overview, in the help of their commands and in docs/cli.md', async () => {
  const overview = await helpOf(undefined);
  for (const [alias, name] of Object.entries(ALIASES)) {
    assert.match(overview, new RegExp(`^  svc ${alias} +svc ${name}$`, 'm'));
    assert.ok((await helpOf(name)).includes(`  svc ${alias} `), alias);
    assert.match(docs, new RegExp(`^\\| .*\`svc ${alias}\`.* \\| \`svc ${name}\` \\|$`, 'm'));
    assert.not.ok(Object.hasOwn(GROUPS, alias) || isCommand(alias), `${alias} is a command`);
  }
});

test('every group has commands, and every short flag has one meaning', () => {
  for (const group of Object.keys(GROUPS))
    assert.ok(
      commands.some(([name]) => name.startsWith(`${group} `)),
      group,
    );
  for (const [name, command] of commands) {
    const shorts = Object.values(command.flags).flatMap((flag) => flag.short ?? []);
    assert.is(new Set(shorts).size, shorts.length, name);
    assert.not.ok(shorts.includes('h') || shorts.includes('v'), `${name} takes a flag of all`);
  }
});

test('docs/cli.md describes exactly the existing commands, flags and exit codes', () => {
  assert.equal(
    [...sections.keys()],
    commands.map(([name]) => name),
  );
  for (const [name, command] of commands) {
    const section = sections.get(name) ?? '';
    const unwrapped = section.replaceAll('\n', ' ');
    assert.ok(section.includes(command.summary), `${name}: summary`);
    assert.ok(section.includes(`    ${usageLine(name, command)}\n`), `${name}: usage`);
    for (const paragraph of command.detail ?? []) assert.ok(unwrapped.includes(paragraph), `${name}: ${paragraph}`);
    assert.match(section, /^Exit: \d/m, name);
    const rows = section.split('\n').filter((line) => line.startsWith('| `'));
    const expected = Object.entries(command.flags).map(
      ([flag, facts]) => `| \`${flagUsage(flag, facts).replaceAll('|', '\\|')}\` | ${describeFlag(facts)} |`,
    );
    assert.equal(rows, expected, name);
  }
});

test.run();
