/** The proto definitions agree with the TypeScript records and the documentation. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import ts from 'typescript';
import { read } from '../architecture/source-files.ts';
import { definitions } from './scripted.ts';

const MESSAGES = Object.keys(definitions.all).filter(
  (name) => name.startsWith('svc.v1.') && 'type' in definitions.all[name]!,
);

/** Properties of each interface, and of its inline object types as `Interface.property`. */
function interfacesOf(...paths: string[]): Map<string, string[]> {
  const found = new Map<string, string[]>();
  const visit = (name: string, members: ts.NodeArray<ts.TypeElement>, source: ts.SourceFile): void => {
    const properties = members.filter(ts.isPropertySignature);
    found.set(
      name,
      properties.map((property) => property.name.getText(source)),
    );
    for (const { name: inner, type } of properties) {
      if (type !== undefined && ts.isTypeLiteralNode(type))
        visit(`${name}.${inner.getText(source)}`, type.members, source);
    }
  };
  for (const path of paths) {
    const source = ts.createSourceFile(path, read(path), ts.ScriptTarget.Latest);
    for (const statement of source.statements) {
      if (ts.isInterfaceDeclaration(statement)) visit(statement.name.text, statement.members, source);
    }
  }
  return found;
}

test('every field of a record is a field of its message, in the same order', () => {
  const interfaces = interfacesOf('src/protocol/records.ts', 'src/protocol/generate.ts');
  const left: Record<string, readonly string[]> = {
    // Over TCP neither a path of this machine nor a system message of the config is returned.
    Model: ['settings', 'path', 'projector'],
    // The oneof field that is set gives the type.
    StartEvent: ['type'],
    TextEvent: ['type'],
    ReasoningEvent: ['type'],
    ToolCallEvent: ['type'],
    FinishEvent: ['type'],
  };
  const pairs = {
    Health: 'HealthRecord',
    Queue: 'HealthRecord.queue',
    Resources: 'HealthRecord.resources',
    Condition: 'Condition',
    ModelHealth: 'LoadedModelHealth',
    Steps: 'StepsHealth',
    ProviderHealth: 'ProviderHealth',
    Model: 'ModelRecord',
    LoadedModel: 'LoadedModel',
    Provider: 'ProviderRecord',
    Credential: 'ProviderRecord.credential',
    RouteAttempt: 'RouteAttempt',
    StartEvent: 'StartEvent',
    TextEvent: 'TextEvent',
    ReasoningEvent: 'ReasoningEvent',
    ToolCallEvent: 'ToolCallEvent',
    FinishEvent: 'FinishEvent',
    Usage: 'Usage',
    Repetition: 'Repetition',
    Timings: 'Timings',
  };
  for (const [message, record] of Object.entries(pairs)) {
    const fields = definitions.fields(`svc.v1.${message}`).map(({ name }) => name);
    const expected = interfaces.get(record)?.filter((name) => left[message]?.includes(name) !== true);
    assert.equal(fields, expected, message);
  }
});

test('docs/grpc.md names every method with its messages, and every message with its fields', () => {
  const rows = read('docs/grpc.md')
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) => line.split('|').map((cell) => cell.trim()));
  const documented = new Map(rows.map(([, name = '', ...cells]) => [name.replaceAll('`', ''), cells]));
  const nameOf = ({ type }: { type: object }): string => (type as { name: string }).name;
  for (const service of ['Runtime', 'Inference']) {
    for (const method of Object.values(definitions.service(`svc.v1.${service}`))) {
      const [request, response] = documented.get(method.path.slice(1)) ?? [];
      assert.is(request, `\`${nameOf(method.requestType)}\``, method.path);
      const stream = method.responseStream ? 'stream of ' : '';
      assert.is(response, `${stream}\`${nameOf(method.responseType)}\``, method.path);
    }
  }
  assert.ok(MESSAGES.length > 0);
  for (const message of MESSAGES) {
    const fields = definitions.fields(message).map(({ name }) => `\`${name}\``);
    const name = message.slice('svc.v1.'.length);
    assert.is(documented.get(name)?.[0], fields.length === 0 ? 'none' : fields.join(', '), name);
  }
});

test('docs/grpc.md links to the limits of the port', () => {
  // test/architecture/security.test.ts compares that table with the listener.
  assert.ok(read('docs/grpc.md').includes('(security.md#bounds)'));
});

test.run();
