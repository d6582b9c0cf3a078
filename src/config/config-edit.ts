/**
 * Edits the text of a config file and keeps comments, order and line breaks as the user wrote them. A comment at the
 * end of a line belongs to that line; jsonc-parser's own edits would move or drop it, so properties are inserted and
 * removed here.
 */
import {
  applyEdits,
  createScanner,
  findNodeAtLocation,
  modify,
  parseTree,
  type Node,
  type ParseOptions,
} from 'jsonc-parser';

const LENIENT: ParseOptions = { allowTrailingComma: true, allowEmptyContent: true };

/** Sets a value. REQUIRES: `source` is JSON with comments, and all existing parents of `path` are objects. */
export function setInText(source: string, path: readonly string[], value: unknown): string {
  const root = parseTree(source, [], LENIENT);
  if (root === undefined) {
    const before = source === '' || source.endsWith('\n') ? source : `${source}\n`;
    return setInText(`${before}{}\n`, path, value);
  }
  if (findNodeAtLocation(root, [...path]) !== undefined) {
    return applyEdits(source, modify(source, [...path], value, {}));
  }
  // Find the deepest existing parent; objects that are missing below it are inserted with the value.
  let depth = path.length - 1;
  while (findNodeAtLocation(root, path.slice(0, depth)) === undefined) depth -= 1;
  const parent = findNodeAtLocation(root, path.slice(0, depth)) ?? root;
  const inner = path.slice(depth + 1).reduceRight((below, key) => ({ [key]: below }), value);
  return insertProperty(source, parent, path[depth] ?? '', inner);
}

/** Removes a property, if it exists. REQUIRES: as `setInText`. */
export function removeFromText(source: string, path: readonly string[]): string {
  const root = parseTree(source, [], LENIENT);
  const property = root && findNodeAtLocation(root, [...path])?.parent;
  if (property === undefined) return source;
  const end = property.offset + property.length;
  // Remove its comma, or the comma before it if it is last: the later text first, so that offsets stay valid.
  const comma = commaAfter(source, end);
  const rest = comma === undefined ? source : cut(source, comma, comma + 1);
  if (comma === undefined) {
    const siblings = property.parent?.children ?? [];
    const before = siblings[siblings.indexOf(property) - 1];
    const separator = before && commaAfter(source, before.offset + before.length);
    if (separator !== undefined) return removeFromText(cut(source, separator, separator + 1), path);
  }
  const lineStart = rest.lastIndexOf('\n', property.offset - 1) + 1;
  const blanks = /[ \t]*\r?\n?/y;
  blanks.lastIndex = end;
  const [after = ''] = blanks.exec(rest) ?? [];
  const isOwnLine = rest.slice(lineStart, property.offset).trim() === '' && after.endsWith('\n');
  return isOwnLine ? cut(rest, lineStart, end + after.length) : cut(rest, property.offset, end);
}

/** Inserts a property after the last one and the comment on its line. */
function insertProperty(source: string, object: Node, key: string, value: unknown): string {
  const eol = source.includes('\r\n') ? '\r\n' : '\n';
  const unit = /^\t/m.test(source) ? '\t' : '  ';
  const base = indentAt(source, object.offset);
  const [first] = object.children ?? [];
  const last = object.children?.at(-1);
  const closing = object.offset + object.length - 1;
  const opened = object.offset + 1;
  const own = first !== undefined && startsLine(source, first.offset) ? indentAt(source, first.offset) : base + unit;
  const text = (indent: string): string =>
    `${JSON.stringify(key)}: ${JSON.stringify(value, null, unit).replaceAll('\n', eol + indent)}`;

  if (last === undefined && source.slice(opened, closing).trim() === '') {
    return splice(source, opened, closing, `${eol}${own}${text(own)}${eol}${base}`);
  }
  const end = last === undefined ? opened : last.offset + last.length;
  const comma = last === undefined ? undefined : commaAfter(source, end);
  const tail = comma === undefined ? '' : ',';
  let at = comma === undefined ? end : comma + 1;
  let added: string;
  if (source.slice(object.offset, closing).includes('\n')) {
    const comments = /(?:[ \t]*(?:\/\/[^\r\n]*|\/\*[^\r\n]*?\*\/))*/y;
    comments.lastIndex = at;
    at += comments.exec(source)?.[0].length ?? 0;
    added = `${eol}${own}${text(own)}${tail}`;
  } else {
    const inLine = JSON.stringify(value);
    added = ` ${JSON.stringify(key)}: ${inLine}${tail}`;
  }
  const inserted = splice(source, at, at, added);
  return last === undefined || comma !== undefined ? inserted : splice(inserted, end, end, ',');
}

/** Offset of the comma that follows `offset`, skipping comments; undefined: there is none. */
function commaAfter(source: string, offset: number): number | undefined {
  const scanner = createScanner(source, true);
  scanner.setPosition(offset);
  scanner.scan();
  return source[scanner.getTokenOffset()] === ',' ? scanner.getTokenOffset() : undefined;
}

function indentAt(source: string, offset: number): string {
  return /^[ \t]*/.exec(source.slice(source.lastIndexOf('\n', offset - 1) + 1))?.[0] ?? '';
}

function startsLine(source: string, offset: number): boolean {
  return source.slice(source.lastIndexOf('\n', offset - 1) + 1, offset).trim() === '';
}

function cut(text: string, from: number, to: number): string {
  return splice(text, from, to, '');
}

function splice(text: string, from: number, to: number, replacement: string): string {
  return text.slice(0, from) + replacement + text.slice(to);
}
