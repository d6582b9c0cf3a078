/** Reads the fields of a vendor's request types from the declarations of its SDK, with the TypeScript compiler. */
import ts from 'typescript';

export interface SdkType {
  /** Declaration file in node_modules. */
  readonly file: string;
  /** Exported interface or type; `A.B`: in a namespace. */
  readonly name: string;
  /** Fields whose parts are read too: `response_format`, `messages[].content[]`. */
  readonly parts?: readonly string[];
  /** Fields whose objects are no part of the API: bytes, JSON Schemas. */
  readonly opaque?: readonly string[];
  /** Fields whose text values are read, each as a field of its own: `tools[].type`. */
  readonly kinds?: readonly string[];
  /** True: the SDK sends `topN` as `top_n`. */
  readonly isCamelCase?: boolean;
  /** Type whose fields another section declares: only those beyond it are read. */
  readonly beyond?: SdkType;
  /** Fields of the API that the SDK lacks. */
  readonly more?: readonly string[];
}

export interface SdkFields {
  /** `stop`, `stream_options.include_usage`, `tools[].type = custom`. */
  readonly names: ReadonlySet<string>;
  /** Objects, and lists of objects, in one of the fields, whose own fields are not read: they are no `parts`. */
  unreadIn(path: string): readonly string[];
}

/** Reads the fields of the types. */
export function sdkFields(types: readonly SdkType[]): ReadonlyMap<SdkType, SdkFields> {
  const paths = types.flatMap(({ file, beyond }) => [file, ...(beyond === undefined ? [] : [beyond.file])]).map(pathOf);
  const options = { module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, types: [] };
  const program = ts.createProgram(paths, { ...options, strict: true, skipLibCheck: true, noEmit: true });
  return new Map(types.map((type) => [type, fieldsOfType(program, type)]));
}

function pathOf(file: string): string {
  return `node_modules/${file}`;
}

function fieldsOfType(program: ts.Program, type: SdkType): SdkFields {
  const checker = program.getTypeChecker();
  const source = program.getSourceFile(pathOf(type.file));
  if (source === undefined) throw new Error(`${type.file} does not exist`);
  const root = typeIn(checker, source, type.name);
  const known = type.beyond === undefined ? new Set<string>() : fieldsOfType(program, type.beyond).names;
  const names = [...wireNames(fieldsIn(checker, root, type), type)].filter((name) => !known.has(name));
  return { names: new Set(names), unreadIn: (path) => unread(checker, root, type, sdkName(path, type)) };
}

function wireNames(names: ReadonlySet<string>, { isCamelCase = false }: SdkType): ReadonlySet<string> {
  if (!isCamelCase) return names;
  return new Set([...names].map((name) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)));
}

function sdkName(name: string, { isCamelCase = false }: SdkType): string {
  return isCamelCase ? name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()) : name;
}

function typeIn(checker: ts.TypeChecker, source: ts.SourceFile, name: string): ts.Type {
  let symbol = checker.getSymbolAtLocation(source);
  for (const part of name.split('.')) {
    const found = symbol && checker.getExportsOfModule(symbol).find((each) => each.name === part);
    if (found === undefined) throw new Error(`${source.fileName} exports no ${name}`);
    symbol = found.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(found) : found;
  }
  if (symbol === undefined) throw new Error(`${source.fileName} is no module`);
  return checker.getDeclaredTypeOfSymbol(symbol);
}

/** Paths of objects, and lists of them, whose parts `type` does not read. `path`: a field that it reads. */
function unread(checker: ts.TypeChecker, root: ts.Type, { parts = [], opaque = [] }: SdkType, path: string): string[] {
  const types = typesAt(checker, root, path);
  const inner = types.flatMap((type) => membersOf(type).flatMap((each) => elementsOf(checker, each)));
  return [
    ...(propertiesOf(checker, ...types).size > 0 ? [path] : []),
    ...(propertiesOf(checker, ...inner).size > 0 ? [`${path}[]`] : []),
  ].filter((each) => !parts.includes(each) && !opaque.includes(each));
}

function elementsOf(checker: ts.TypeChecker, type: ts.Type): readonly ts.Type[] {
  return checker.isArrayType(type) ? checker.getTypeArguments(type as ts.TypeReference) : [];
}

function fieldsIn(checker: ts.TypeChecker, root: ts.Type, { parts = [], kinds = [] }: SdkType): Set<string> {
  const found = new Set(propertiesOf(checker, root).keys());
  for (const path of parts) {
    for (const name of propertiesOf(checker, ...typesAt(checker, root, path)).keys()) found.add(`${path}.${name}`);
  }
  for (const path of kinds) {
    for (const type of typesAt(checker, root, path)) {
      found.delete(path);
      for (const member of membersOf(type)) if (member.isStringLiteral()) found.add(`${path} = ${member.value}`);
    }
  }
  return found;
}

function membersOf(type: ts.Type): readonly ts.Type[] {
  return type.isUnion() ? type.types : [type];
}

/** Types that a field may have, from all members of all unions on the way. Throws if there is no such field. */
function typesAt(checker: ts.TypeChecker, root: ts.Type, path: string): ts.Type[] {
  let types = [root];
  for (const [, name = '', list] of path.matchAll(/([^.[\]]+)((?:\[\])*)/g)) {
    types = propertiesOf(checker, ...types).get(name) ?? [];
    for (let level = 0; level < (list ?? '').length; level += 2) {
      types = types.flatMap((type) => membersOf(type).flatMap((member) => elementsOf(checker, member)));
    }
    if (types.length === 0) throw new Error(`the SDK has no field ${path}`);
  }
  return types;
}

function propertiesOf(checker: ts.TypeChecker, ...types: readonly ts.Type[]): Map<string, ts.Type[]> {
  const found = new Map<string, ts.Type[]>();
  for (const member of types.flatMap(membersOf)) {
    if (!(member.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection)) || checker.isArrayType(member)) continue;
    // `string & {}`, by which an SDK lists the texts that it knows.
    if (checker.isTypeAssignableTo(member, checker.getStringType())) continue;
    for (const symbol of checker.getPropertiesOfType(member)) {
      found.set(symbol.name, [...(found.get(symbol.name) ?? []), checker.getTypeOfSymbol(symbol)]);
    }
  }
  return found;
}
