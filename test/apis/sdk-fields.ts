/** Reads the fields of a vendor's request types from the declarations of its SDK, with the TypeScript compiler. */
import ts from 'typescript';

export interface SdkType {
  /** Declaration file in node_modules. */
  readonly file: string;
  /** Exported interface or type; `A.B`: in a namespace. */
  readonly name: string;
  /** Fields whose parts are read too: `response_format`, `messages[].content[]`. */
  readonly parts?: readonly string[];
  /** Fields whose text values are read, each as a field of its own: `tools[].type`. */
  readonly kinds?: readonly string[];
  /** True: the SDK sends `topN` as `top_n`. */
  readonly isCamelCase?: boolean;
  /** Fields of the API that the SDK lacks. */
  readonly more?: readonly string[];
}

/** Returns the names of the fields: `stop`, `stream_options.include_usage`, `tools[].type = custom`. */
export function sdkFields(types: readonly SdkType[]): ReadonlyMap<SdkType, ReadonlySet<string>> {
  const paths = types.map(({ file }) => `node_modules/${file}`);
  const options = { module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, types: [] };
  const program = ts.createProgram(paths, { ...options, strict: true, skipLibCheck: true, noEmit: true });
  const checker = program.getTypeChecker();
  return new Map(
    types.map((type, index) => {
      const source = program.getSourceFile(paths[index] ?? '');
      if (source === undefined) throw new Error(`${type.file} does not exist`);
      return [type, wireNames(fieldsIn(checker, typeIn(checker, source, type.name), type), type)] as const;
    }),
  );
}

function wireNames(names: ReadonlySet<string>, { isCamelCase = false }: SdkType): ReadonlySet<string> {
  if (!isCamelCase) return names;
  return new Set([...names].map((name) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)));
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
      types = types.flatMap((type) =>
        membersOf(type).flatMap((member) =>
          checker.isArrayType(member) ? checker.getTypeArguments(member as ts.TypeReference) : [],
        ),
      );
    }
    if (types.length === 0) throw new Error(`the SDK has no field ${path}`);
  }
  return types;
}

function propertiesOf(checker: ts.TypeChecker, ...types: readonly ts.Type[]): Map<string, ts.Type[]> {
  const found = new Map<string, ts.Type[]>();
  for (const member of types.flatMap(membersOf)) {
    if (!(member.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection)) || checker.isArrayType(member)) continue;
    for (const symbol of checker.getPropertiesOfType(member)) {
      found.set(symbol.name, [...(found.get(symbol.name) ?? []), checker.getTypeOfSymbol(symbol)]);
    }
  }
  return found;
}
