/** Gives each block of code its language and a button that copies it. */
import { announce } from './announcer.tsx';
import { copyText } from './copy-button.tsx';

export function codeBlocks(fragment: DocumentFragment): void {
  for (const pre of fragment.querySelectorAll('pre')) {
    const code = pre.querySelector('code');
    const language = /language-([\w+#.-]{1,32})/.exec(code?.className ?? '')?.[1] ?? 'text';
    code?.removeAttribute('class');
    pre.tabIndex = 0;
    pre.role = 'region';
    pre.ariaLabel = `Code, ${language}`;
    const frame = element('div', 'code');
    const head = element('div', 'code-head');
    const name = element('span', 'muted');
    name.textContent = language;
    pre.replaceWith(frame);
    head.append(name, copyButton(code ?? pre));
    frame.append(head, pre);
  }
}

function copyButton(code: HTMLElement): HTMLButtonElement {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'quiet small';
  button.textContent = 'Copy';
  button.ariaLabel = 'Copy code';
  button.addEventListener('click', () => {
    void copyText(code.textContent).then((isDone) => {
      button.textContent = isDone ? 'Copied' : 'Not allowed';
      announce(button.textContent);
    });
  });
  return button;
}

function element(tag: string, name: string): HTMLElement {
  const made = document.createElement(tag);
  made.className = name;
  return made;
}
