/**
 * Markdown of a model. What it writes is not trusted: the HTML is sanitised, pictures are links (a picture of another
 * server would tell it what was read), and no style or script survives. Blocks that have not changed since the last
 * token are not made again.
 */
import DOMPurify from 'dompurify';
import { Marked, Tokenizer, type Token } from 'marked';
import { Component, createRef, type JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { codeBlocks } from './code-blocks.ts';

/** Tags without attributes that models write for want of Markdown. */
const PLAIN_TAG = /^<\/?(?:b|br|em|hr|i|kbd|s|strong|sub|sup)\s*\/?>$/i;

/** Levels of lists and quotes. A model in a loop writes thousands, which would overflow the stack, and fill the width. */
const MAX_DEPTH = 20;
let depth = 0;

/** `read` reads one level with all in it; undefined, too deep: the text stays as it was written. */
function atDepth<T>(read: () => T): T | undefined {
  if (depth === MAX_DEPTH) return undefined;
  depth += 1;
  try {
    return read();
  } finally {
    depth -= 1;
  }
}

const marked = new Marked({
  gfm: true,
  tokenizer: {
    blockquote(text) {
      return atDepth(() => Tokenizer.prototype.blockquote.call(this, text));
    },
    list(text) {
      return atDepth(() => Tokenizer.prototype.list.call(this, text));
    },
  },
  renderer: {
    image: ({ href, text }) => `<a href="${escape(href)}">${escape(text === '' ? href : text)}</a>`,
    // Other HTML is shown as it was written: a model that explains HTML means its text.
    html: ({ text }) => (PLAIN_TAG.test(text.trim()) ? text : escape(text)),
    checkbox: ({ checked }) => (checked ? '☑ ' : '☐ '),
  },
});

const TAGS =
  'a b blockquote br code del em h1 h2 h3 h4 h5 h6 hr i kbd li ol p pre s strong sub sup table tbody td th thead tr ul';
const RULES = {
  ALLOWED_TAGS: TAGS.split(' '),
  ALLOWED_ATTR: ['href', 'title', 'start', 'align', 'class'],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  RETURN_DOM_FRAGMENT: true as const,
};

export function Markdown({ text }: { readonly text: string }): JSX.Element {
  const blocks = useMemo(() => marked.lexer(text).filter(({ type }) => type !== 'space'), [text]);
  return (
    <div class="markdown">
      {blocks.map((block, index) => (
        <Block key={index} token={block} />
      ))}
    </div>
  );
}

class Block extends Component<{ readonly token: Token }> {
  readonly #place = createRef<HTMLDivElement>();

  override shouldComponentUpdate({ token }: { readonly token: Token }): boolean {
    return token.raw !== this.props.token.raw;
  }

  override componentDidMount(): void {
    this.componentDidUpdate();
  }

  override componentDidUpdate(): void {
    this.#place.current?.replaceChildren(fragmentOf(this.props.token));
  }

  override render(): JSX.Element {
    return <div ref={this.#place} />;
  }
}

function fragmentOf(token: Token): DocumentFragment {
  const fragment = DOMPurify.sanitize(marked.parser([token]), RULES);
  for (const link of fragment.querySelectorAll('a')) {
    link.target = '_blank';
    link.rel = 'noopener noreferrer';
  }
  for (const table of fragment.querySelectorAll('table')) scrollable(table);
  codeBlocks(fragment);
  return fragment;
}

/** A wide table scrolls by itself, also by keyboard. */
function scrollable(table: HTMLTableElement): void {
  const frame = document.createElement('div');
  frame.className = 'table-frame';
  frame.tabIndex = 0;
  frame.role = 'region';
  frame.ariaLabel = 'Table';
  table.replaceWith(frame);
  frame.append(table);
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
