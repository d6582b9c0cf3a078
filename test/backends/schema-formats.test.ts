/** JSON Schema as a grammar: the grammar of a `format` or `pattern` allows the values that the standards allow. */
import Ajv from 'ajv';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { schemaGrammar } from '../../src/backends/local/schema/schema-grammar.ts';
import { readerOf, textsOf } from '../support/grammar-texts.ts';
import { random } from './random-schema.ts';

/** Asserts which of the texts are strings of the schema. */
function assertTexts(schema: object, valid: readonly string[], invalid: readonly string[]): void {
  const isAllowed = readerOf(schemaGrammar({ type: 'string', ...schema }, 'schema'));
  const allowed = (texts: readonly string[]) => texts.filter((text) => isAllowed(JSON.stringify(text)));
  assert.equal(allowed(valid), valid, JSON.stringify(schema));
  assert.equal(allowed(invalid), [], JSON.stringify(schema));
}

const label = (length: number): string => 'a'.repeat(length);

test('formats allow every valid value, and no invalid one', () => {
  assertTexts(
    { format: 'date' },
    ['2024-02-29', '2000-02-29', '0400-02-29', '1999-12-31', '2023-02-28', '0000-01-01'],
    ['2023-02-29', '1900-02-29', '2024-02-30', '2024-04-31', '2024-13-01', '2024-00-10', '24-01-01', '2024-1-1', ''],
  );
  const moments = ['2024-02-29T10:00:00Z', '2024-02-28T23:59:59.123456789+14:00', '2024-02-28T00:00:00.1-00:00'];
  assertTexts({ format: 'date-time' }, moments, [
    '2023-02-29T10:00:00Z',
    '2024-02-28T24:00:00Z',
    '2024-02-28T10:00:00',
  ]);
  assertTexts({ format: 'time' }, ['10:00:00Z', '23:59:59.5+01:30'], ['10:00Z', '10:60:00Z', '10:00:00+24:00']);
  assertTexts(
    { format: 'duration' },
    ['P1W', 'P1M', 'P1Y', 'P1D', 'PT5M', 'PT86400S', 'P1Y2M10DT2H30M5S', 'P3MT1H', 'PT1H', 'P1000D'],
    ['P', 'PT', 'P1', '1D', 'P1DT', 'P1Y1W', 'P1D2M', 'PT1D', 'PT5S1M'],
  );
  assertTexts(
    { format: 'uuid' },
    [
      '018f4e5c-7d4a-7cc3-98c4-dc0c0c07398f',
      'C56A4180-65AA-42EC-A945-5FD21DEC0538',
      '00000000-0000-0000-0000-000000000000',
      'ffffffff-ffff-ffff-ffff-ffffffffffff',
    ],
    ['c56a4180-65aa-42ec-a945-5fd21dec053', 'c56a418065aa42eca9455fd21dec0538', 'g56a4180-65aa-42ec-a945-5fd21dec0538'],
  );
  const uuid4 = ['c56a4180-65aa-42ec-a945-5fd21dec0538', 'C56A4180-65AA-42EC-A945-5FD21DEC0538'];
  assertTexts({ format: 'uuid4' }, uuid4, ['018f4e5c-7d4a-7cc3-98c4-dc0c0c07398f']);
});

test('addresses of the Internet Protocol', () => {
  assertTexts({ format: 'ipv4' }, ['0.0.0.0', '192.168.1.5', '255.255.255.255'], ['256.1.1.1', '1.2.3', '01.2.3.4']);
  assertTexts(
    { format: 'ipv6' },
    ['::', '::1', 'fe80::1', '1::', '2001:DB8:0:0:0:0:0:1', '2001:db8::8a2e:370:7334', '1:2:3:4:5:6:7::'].concat(
      ['::2:3:4:5:6:7:8', '1:2:3:4:5:6:7:8', '::ffff:192.0.2.128', '64:ff9b::192.0.2.33', '1:2:3:4:5:6:1.2.3.4'],
      ['1::3:4:5:6:7:8', '1:2:3::5:6:1.2.3.4', '::1.2.3.4', '1:2::8'],
    ),
    [
      '',
      ':',
      '1',
      ':::',
      '1:2',
      '1::2::3',
      '1:2:3:4:5:6:7',
      '1:2:3:4:5:6:7:8:9',
      '12345::',
      '::g',
      '1:2:3:4:5:6:7:1.2.3.4',
    ].concat([
      '1:2:3:4:5:6:7:8::',
      '::1:2:3:4:5:6:7:8',
      '::1.2.3',
      ':1:2:3:4:5:6:7',
      '1.2.3.4',
      '::1:2:3:4:5:6:1.2.3.4',
    ]),
  );
});

test('names of hosts and addresses of mail', () => {
  const long = [label(63), label(63), label(63), label(14)].join('.');
  const names = ['localhost', 'example.com', 'Example.COM', 'xn--mnchen-3ya.de', 'a', '1host', 'a-b.c--d', label(63)];
  const many = ['8.b.d.0.1.0.0.2.ip6.arpa', `${label(40)}.namespace-of-the-team.svc.cluster.local`];
  const wrong = ['', '-a', 'a-', 'a..b', '.a', 'a.', 'a_b', 'a b', label(64), `a.${label(64)}`];
  const tooLong = [label(63), label(63), label(63), label(63)].join('.');
  assertTexts({ format: 'hostname' }, [...names, ...many, long], [...wrong, tooLong]);
  assertTexts(
    { format: 'email' },
    [
      'a@b.c',
      'John.Doe+tag@Example.com',
      `a@${label(63)}.info`,
      `${label(64)}@a.com`,
      "o'neil_{x}!#$%&*/=?^`|~@a-b.co",
    ].concat([
      'anna@mail.department.faculty.university.example.ac.uk',
      'first.middle.last+newsletter-2024@example.museum',
    ]),
    [
      '',
      'a',
      'a@',
      '@b.c',
      'a@b',
      'a..b@c.d',
      '.a@b.c',
      'a.@b.c',
      'a@b..c',
      'a@-b.c',
      'a@b.c-',
      'a b@c.d',
      'a@b@c.d',
      `a@${label(64)}.c`,
    ],
  );
});

test('a URI has any scheme, host, port, path, query and fragment', () => {
  const web = [
    'http://localhost:3000/',
    'http://192.168.1.5:8080/',
    'http://127.0.0.1:65535',
    'http://[::1]:11434/v1',
    'http://[2001:db8::1]/',
    'http://host.docker.internal:11434/',
    'https://my_host.com/',
    'https://Example.com/',
    'https://user:secret@example.com/',
    'https://a.com/a%20b.md',
    'https://unpkg.com/@types/node',
    'https://en.wikipedia.org/wiki/C_(programming_language)',
    'https://example.com/search?q=a+b&from=%C3%BC',
    'https://example.com?q=a',
    `https://a.com/${'x'.repeat(500)}`,
    'https://github.com/a/b/blob/main/x.md?plain=1#L10-L20',
    'https://example.com/a;b=1,2/c!$&*/~d:e//f?a/b?c#/x?y',
    'https://example.com/#',
  ];
  const others = [
    'file:///tmp/x',
    'file:/tmp/x',
    'mailto:a@b.c',
    'urn:isbn:0451450523',
    'data:text/plain;base64,SGk=',
    's3://bucket/key',
    'vscode-insiders://file/x',
    'about:blank',
  ];
  const invalid = [
    '',
    'example.com',
    '/path',
    '//example.com/',
    'http:',
    'http://',
    'http:///x y',
    'https://a.com/a b',
    'https://a.com/%zz',
    'https://a.com/%2',
    'https://a.com/"',
    'https://a.com/<x>',
    'https://a.com/\\x',
    'https://a.com/{id}',
    'https://a.com/#a#b',
    'https://a.com:port/',
    'http://[::1/',
    'http://[1]/',
    '1http://a.com',
    'https://münchen.de/',
  ];
  assertTexts({ format: 'uri' }, [...web, ...others], invalid);
});

test('a length limit leaves a format most of its values', () => {
  const path = 'x'.repeat(1500);
  assertTexts(
    { format: 'uri', minLength: 1, maxLength: 2083 },
    [
      'http://localhost:3000/',
      `https://example.com/${path}`,
      'https://a.com/a%20b?q=%C3%BC#L10',
      'mailto:a@b.c',
      'file:///x',
    ],
    ['example.com', `https://example.com/${path}${path}`, 'https://a.com/%zz'],
  );
  const host = 'my-bucket.s3.eu-central-1.amazonaws.com';
  assertTexts({ format: 'uri', maxLength: 255 }, [`https://${host}/a/b?c=d#e`], [`http://a.b/${'x'.repeat(250)}`]);
  const [local, domain] = ['firstname.lastname+tag', 'mail.department-of-something.university.edu'];
  assertTexts(
    { format: 'email', minLength: 5, maxLength: 254 },
    [`${local}@${domain}`, `${label(60)}@${label(60)}.com`, 'a@b.c'],
    ['a@b', `${label(65)}@b.c`, `a@${[label(63), label(63), label(63), label(61)].join('.')}`],
  );
  assertTexts(
    { format: 'email', maxLength: 160 },
    [`${local}@${domain}`],
    [`${label(64)}@${label(63)}.${label(40)}.com`],
  );
  assertTexts({ format: 'hostname', maxLength: 253 }, ['localhost', domain], ['-a']);
  assertTexts(
    { format: 'hostname', maxLength: 160 },
    ['localhost', domain, label(63)],
    [`${label(63)}.${label(63)}.${label(40)}`],
  );
});

test('random texts of a format are valid', () => {
  const ajv = new Ajv({ format: 'full' });
  for (const format of ['date', 'time', 'date-time', 'uuid', 'ipv4', 'ipv6', 'hostname', 'email', 'uri'])
    for (const maxLength of [undefined, 255, 2083]) {
      const schema = { type: 'string', format, ...(maxLength === undefined ? {} : { maxLength }) };
      const isValid = ajv.compile(schema);
      const write = textsOf(schemaGrammar(schema, 'schema'), random(5));
      for (let count = 0; count < 200; count++) {
        const text = write();
        assert.ok(text === null || isValid(JSON.parse(text)), `${format} ${String(maxLength)}: ${String(text)}`);
      }
    }
});

test('. and negated classes in a pattern match characters beyond the basic plane', () => {
  assertTexts({ pattern: '^(feat|fix): .+$' }, ['fix: 🎉', 'feat: a', 'feat: Bär 𝛼'], ['fix: ', 'fix: a\nb', 'add: a']);
  assertTexts({ pattern: '^[^0-9]$' }, ['🎉', 'ü'], ['1', '🎉🎉']);
  assertTexts({ pattern: '^\\D\\W\\S$' }, ['🎉🎉🎉'], ['1🎉🎉', '🎉a🎉', '🎉🎉 ']);
  assertTexts({ pattern: '^.{2}$' }, ['🎉🎉', 'ab'], ['🎉']);
});

test.run();
