/** The files of the repository that are ours, and what they import. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

export const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');

export const read = (path: string): string => readFileSync(join(root, path), 'utf8');

/** Everything that git does not ignore, as paths from the root. */
export function trackedFiles(): string[] {
  const listed = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '-z'], { cwd: root });
  return listed
    .toString()
    .split('\0')
    .filter((path) => path !== '' && existsSync(join(root, path)));
}

export interface Import {
  /** From the root for a file of ours, else the package's name. */
  readonly target: string;
  readonly line: number;
}

/** Every import and re-export: type-only ones, `import()` calls and `import('…')` types included. */
export function importsOf(path: string): Import[] {
  const source = ts.createSourceFile(path, read(path), ts.ScriptTarget.Latest, true);
  const imports: Import[] = [];
  const add = (specifier: ts.Node | undefined): void => {
    if (specifier === undefined || !ts.isStringLiteralLike(specifier)) return;
    const target = specifier.text.startsWith('.') ? posix.join(posix.dirname(path), specifier.text) : specifier.text;
    imports.push({ target, line: source.getLineAndCharacterOfPosition(specifier.getStart()).line + 1 });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) add(node.moduleSpecifier);
    else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) add(node.arguments[0]);
    else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) add(node.argument.literal);
    ts.forEachChild(node, visit);
  };
  visit(source);
  return imports;
}
