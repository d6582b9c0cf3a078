/** Reads the fields of llama-server's routes from its source, which the build has beside the engine's. */
import { read } from '../architecture/source-files.ts';

export interface LlamaRoute {
  /** Name of the handler: `post_NAME`. */
  readonly route: string;
  /** True: the route generates, with the fields of all completions. */
  readonly hasSamplers?: boolean;
  /** True: the route has the fields that make the prompt of a chat. */
  readonly isChat?: boolean;
  /** Fields that the source reads elsewhere, or that svc adds. */
  readonly more: readonly string[];
}

const server = 'build/llama.cpp/tools/server';

/** Throws if a part of the source is not where it was. */
export function llamaFields({ route, hasSamplers, isChat }: LlamaRoute): ReadonlySet<string> {
  const handlers = read(`${server}/server-context.cpp`);
  const common = read(`${server}/server-common.cpp`);
  const found = new Set(readIn(between(handlers, `this->post_${route} = `, '\n    this->')));
  if (hasSamplers === true) {
    const run = between(handlers, '::handle_completions_impl(', '\nstd::');
    for (const name of [...readIn(run), ...schemaFields()]) found.add(name);
  }
  if (isChat === true) {
    for (const name of readIn(between(common, '\njson oaicompat_chat_params_parse(', '\n}\n'))) found.add(name);
  }
  return found;
}

function between(text: string, from: string, to: string): string {
  const start = text.indexOf(from);
  const end = text.indexOf(to, start + from.length);
  if (start === -1 || end === -1) throw new Error(`llama-server's source has no longer ${from}`);
  return text.slice(start, end);
}

/** Fields that a function reads from its request. What it moves is its answer. */
function readIn(source: string): string[] {
  const reads = /json_value\((?:body|data),\s*"(\w+)"|(?<!move\()\b(?:body|data)\.(?:at|contains|count)\("(\w+)"\)/g;
  return [...source.matchAll(reads)].map(([, read = '', tested = '']) => read + tested);
}

/** `speculative.n_max` has a dot; `stream_options.include_usage` is a field in another. */
function schemaFields(): string[] {
  const schema = between(read(`${server}/server-schema.cpp`), 'make_llama_cmpl_schema(', '\n}\n');
  const declared = /(add_subfield\(\()?new field_\w+\("([\w.]+)"|add_alias\("(\w+)"\)/g;
  let outer = '';
  return [...schema.matchAll(declared)].map(([, inner, name = '', alias = '']) => {
    if (inner !== undefined) return `${outer}.${name}`;
    if (name !== '') outer = name;
    return name + alias;
  });
}
