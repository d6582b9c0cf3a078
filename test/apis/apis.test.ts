/** Every field of the vendors' SDKs is declared, does what its declaration says, and stands in docs/apis.md. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { read } from '../architecture/source-files.ts';
import { APIS } from './apis.ts';
import { llamaFields } from './llama-fields.ts';
import { pageOf } from './page.ts';
import { sdkFields } from './sdk-fields.ts';

test('the declared fields are those of the SDKs', () => {
  const types = APIS.flatMap(({ sdk }) => (sdk === null ? [] : [sdk]));
  const known = sdkFields(types);
  for (const { title, sdk, fields } of APIS) {
    const names = fields.map(({ name }) => name);
    assert.is(new Set(names).size, names.length, `${title}: a field is declared twice`);
    if (sdk === null) continue;
    const type = known.get(sdk);
    const expected = type?.names ?? new Set<string>();
    const declared = new Set(names);
    const missing = [...expected].filter((name) => !declared.has(name));
    assert.equal(missing, [], `${title}: fields of the SDK that are not declared`);
    const strange = names.filter((name) => !expected.has(name) && sdk.more?.includes(name) !== true);
    assert.equal(strange, [], `${title}: declared fields that the SDK does not have`);
    const unread = fields.flatMap(({ name, verdict }) =>
      verdict === 'honoured' && expected.has(name) && !name.includes(' = ') ? (type?.unreadIn(name) ?? []) : [],
    );
    assert.equal(unread, [], `${title}: objects in honoured fields whose own fields are not declared`);
  }
});

test("the declared fields of llama-server's routes are those that its source reads", () => {
  for (const { title, llama, fields } of APIS) {
    if (llama === undefined) continue;
    const declared = fields.map(({ name }) => name).filter((name) => !llama.more.includes(name));
    assert.equal(declared.toSorted(), [...llamaFields(llama)].toSorted(), title);
  }
});

test('docs/apis.md says what every field does when it is sent', async () => {
  assert.is(read('docs/apis.md'), await pageOf(APIS), 'run node --import tsx test/apis/write-page.ts');
});

test.run();
