/** Edits of the text of a config file: everything else stays unchanged. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { getNodeValue, parseTree } from 'jsonc-parser';
import { removeFromText, setInText } from '../../src/config/config-edit.ts';
import { parseConfig } from '../../src/config/config.ts';

const valueOf = (source: string): unknown => {
  const root = parseTree(source);
  return root === undefined ? undefined : getNodeValue(root);
};

test('a value is replaced in place', () => {
  const before = '{\n  // ours\n  "http": { "port": 8000 /* eight */, }, // http\n}\n';
  assert.is(setInText(before, ['http', 'port'], 9), before.replace('8000', '9'));
});

test('a new property is added last, after the comment of the previous line', () => {
  assert.is(
    setInText('{\n  "http": {\n    // ours\n    "port": 1 // one\n  }, // http\n  // end\n}\n', ['http', 'host'], 'x'),
    '{\n  "http": {\n    // ours\n    "port": 1, // one\n    "host": "x"\n  }, // http\n  // end\n}\n',
  );
  assert.is(
    setInText('{\r\n\t"http": {\r\n\t\t"port": 1, /* a */ // b\r\n\t},\r\n}', ['http', 'host'], 'x'),
    '{\r\n\t"http": {\r\n\t\t"port": 1, /* a */ // b\r\n\t\t"host": "x",\r\n\t},\r\n}',
  );
  assert.is(setInText('{ "http": { "port": 1 } }', ['http', 'host'], 'x'), '{ "http": { "port": 1, "host": "x" } }');
});

test('missing sections are created', () => {
  const made = '{\n  "log": {\n    "level": "warn"\n  }\n}';
  assert.is(setInText('', ['log', 'level'], 'warn'), `${made}\n`);
  assert.is(setInText('{}', ['log', 'level'], 'warn'), made);
  assert.is(setInText('// nothing yet\n', ['log', 'level'], 'warn'), `// nothing yet\n${made}\n`);
  assert.is(
    setInText('{\n  "http": { "port": 1 },\n}\n', ['log', 'level'], 'warn'),
    '{\n  "http": { "port": 1 },\n  "log": {\n    "level": "warn"\n  },\n}\n',
  );
});

test('removing a property removes its line and comma, but no comment of another property', () => {
  const both = '{\n  "http": {\n    // the port\n    "port": 1,\n    // the host\n    "host": "x" // here\n  }\n}\n';
  assert.is(
    removeFromText(both, ['http', 'port']),
    '{\n  "http": {\n    // the port\n    // the host\n    "host": "x" // here\n  }\n}\n',
  );
  assert.is(
    removeFromText(both, ['http', 'host']),
    '{\n  "http": {\n    // the port\n    "port": 1\n    // the host\n     // here\n  }\n}\n',
  );
  assert.is(removeFromText(both, ['log', 'level']), both);
});

test('in any layout: the file stays valid, a value can be set and removed, and comments are kept', () => {
  const layouts = [
    '{}',
    '{ // c\n}',
    '{"http": {/* c */}}',
    '{"http":{"port":1}}',
    '{\n\n\n  "http": {},}',
    '{ /* c */ "log": { "level": "info" }, "http" : { "allowed_hosts": ["a", /* c */ "b"], } // c\n, }',
    '\n{\n"engine":\n{\n"threads"\n:\n4\n// c\n}\n}\n// c',
    '{ "http": { "host": "},{" } }',
  ];
  const settings: [string, string, unknown][] = [
    ['http', 'port', 80],
    ['http', 'allowed_hosts', ['a', 'b']],
    ['log', 'level', 'warn'],
    ['engine', 'threads', 2],
  ];
  const comments = (text: string): number => text.match(/\/\/ c|\/\* c \*\//g)?.length ?? 0;
  for (const layout of layouts) {
    for (const [section, key, value] of settings) {
      const name = `${JSON.stringify(layout)} ${section}.${key}`;
      const set = setInText(layout, [section, key], value);
      assert.equal(parseConfig(set).problems, [], `${name}\n${set}`);
      assert.equal((valueOf(set) as any)[section][key], value, name);
      const unset = removeFromText(set, [section, key]);
      assert.equal(parseConfig(unset).problems, [], `${name}\n${unset}`);
      assert.is((valueOf(unset) as any)[section]?.[key], undefined, name);
      // Comments inside a replaced list are removed with it.
      if (Array.isArray(value)) continue;
      assert.is(comments(set), comments(layout), `${name}\n${set}`);
      assert.is(comments(unset), comments(layout), `${name}\n${unset}`);
    }
  }
});

test.run();
