/**
 * `--schema FILE` and `--grammar FILE`. Errors in the file, found here or by the engine, are reported with line and
 * column.
 */
import { getNodeValue, parseTree, printParseErrorCode, type Node, type ParseError } from 'jsonc-parser';
import { position } from '../../config/config.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { Format } from '../../protocol/generate.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { readTextFile } from './text-file.ts';

export interface FormatFile {
  readonly format: Format;
  /** Turns the daemon's refusal of the format into an error with its place in the file; returns others unchanged. */
  blame(error: unknown): unknown;
}

/** Returns null if neither is given. Throws INPUT_INVALID. */
export async function readFormat(schema: string | undefined, grammar: string | undefined): Promise<FormatFile | null> {
  if (schema !== undefined && grammar !== undefined)
    throw new SvcError('INVALID_REQUEST', '--schema and --grammar exclude each other', { hint: 'give one of them' });
  if (schema !== undefined) return await readSchema(schema);
  return grammar === undefined ? null : await readGrammar(grammar);
}

async function readSchema(file: string): Promise<FormatFile> {
  const source = await readTextFile(file, LIMITS.schemaBytes);
  const errors: ParseError[] = [];
  const root = parseTree(source, errors, { disallowComments: true });
  const [error] = errors;
  if (root === undefined || error !== undefined) {
    const words =
      error === undefined ? 'is empty' : printParseErrorCode(error.error).replace(/(?<=[a-z])(?=[A-Z])/g, ' ');
    throw wrong(file, source, error?.offset ?? 0, `not valid JSON: ${words.toLowerCase()}`);
  }
  if (root.type !== 'object') throw wrong(file, source, root.offset, 'the schema must be a JSON object');
  return {
    format: { type: 'json_schema', schema: getNodeValue(root) as Record<string, unknown> },
    blame: (thrown) => {
      const error = refusal(thrown, 'format.schema');
      if (error === null) return thrown;
      const place = error.param?.slice('format.schema'.length) ?? '';
      const message = error.message.replace(error.param ?? '', place.replace(/^\./, '') || 'the schema');
      return wrong(file, source, locate(root, place).offset, message);
    },
  };
}

async function readGrammar(file: string): Promise<FormatFile> {
  const source = await readTextFile(file, LIMITS.grammarBytes);
  if (source === '') throw new SvcError('INPUT_INVALID', `${file} is empty: a grammar needs a rule named root`);
  return {
    format: { type: 'grammar', grammar: source },
    blame: (thrown) => {
      const error = refusal(thrown, 'format.grammar');
      if (error === null) return thrown;
      const [, line, column, what] = /line (\d+), column (\d+): (.*)$/s.exec(error.message) ?? [];
      if (line === undefined || column === undefined) {
        return new SvcError('INPUT_INVALID', `${file}: ${error.message.replace(/^format\.grammar /, 'the grammar ')}`);
      }
      return new SvcError('INPUT_INVALID', `${file}:${line}:${column}: ${what ?? ''}`);
    },
  };
}

function refusal(thrown: unknown, param: string): SvcError | null {
  const isIt =
    thrown instanceof SvcError && thrown.code === 'INVALID_REQUEST' && thrown.param?.startsWith(param) === true;
  return isIt ? thrown : null;
}

/** Returns the innermost existing node on the path `.properties.a.items[1]`; names may contain dots. */
function locate(node: Node, place: string): Node {
  for (const [index, child] of (node.children ?? []).entries()) {
    const [key, value = child] = node.type === 'object' ? (child.children ?? []) : [];
    const step = key === undefined ? `[${String(index)}]` : `.${String(key.value).slice(0, 64)}`;
    if (place === step) return key ?? value;
    if (place.startsWith(`${step}.`) || place.startsWith(`${step}[`)) return locate(value, place.slice(step.length));
  }
  return node;
}

function wrong(file: string, source: string, offset: number, what: string): SvcError {
  const { line, column } = position(source, offset);
  return new SvcError('INPUT_INVALID', `${file}:${String(line)}:${String(column)}: ${what}`);
}
