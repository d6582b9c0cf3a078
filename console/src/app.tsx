/** The frame around the views: navigation, connection, theme. */
import type { ComponentType, JSX } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { ChatView } from './chat/chat-view.tsx';
import { HealthView } from './health/health-view.tsx';
import { KeysView } from './keys/keys-view.tsx';
import { LogsView } from './logs/logs-view.tsx';
import { ModelsView } from './models/models-view.tsx';
import { NowView } from './now/now-view.tsx';
import { Announcer, announce } from './parts/announcer.tsx';
import { Icon } from './parts/icon.tsx';
import { ShortcutsHelp } from './shortcuts-help.tsx';
import { SignIn } from './sign-in.tsx';
import { connection, health } from './state/connection.ts';
import { key, useKey } from './state/session.ts';
import { isHelpOpen } from './state/shortcuts.ts';
import { theme, toggleTheme } from './state/theme.ts';
import { UsageView } from './usage/usage-view.tsx';
import { TITLES, view, VIEWS, type View } from './state/view.ts';

const PAGES: Readonly<Record<View, ComponentType>> = {
  chat: ChatView,
  models: ModelsView,
  now: NowView,
  health: HealthView,
  logs: LogsView,
  usage: UsageView,
  keys: KeysView,
};

export function App(): JSX.Element {
  const main = useRef<HTMLElement>(null);
  const name = view.value;
  const isFirst = useRef(true);
  useLayoutEffect(() => {
    document.title = `${TITLES[name]} · svc`;
    // A new view is read from its start; the page itself is, too.
    if (!isFirst.current && name !== 'chat') focusQuietly(main.current);
    isFirst.current = false;
    main.current?.scrollTo({ top: 0 });
  }, [name]);
  const Page = PAGES[name];
  return (
    <div class="frame">
      <a class="skip" href="#content" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        To the content
      </a>
      <Navigation />
      <main ref={main} id="content" tabIndex={name === 'chat' ? -1 : 0} aria-label={TITLES[name]}>
        <OfflineBanner />
        <Page />
      </main>
      <SignIn />
      <ShortcutsHelp />
      <Announcer />
    </div>
  );
}

/** Moves the focus without the outline that shows where the Tab key has led. */
function focusQuietly(element: HTMLElement | null): void {
  if (element === null) return;
  element.dataset['quiet'] = '';
  element.addEventListener('blur', () => delete element.dataset['quiet'], { once: true });
  element.focus({ preventScroll: true });
}

function Navigation(): JSX.Element {
  return (
    <div class="side">
      <header class="brand">
        <img src="/console/icon.svg" alt="" width="28" height="28" />
        <span>svc</span>
        <Status />
      </header>
      <nav aria-label="Views">
        {VIEWS.map((each) => (
          <a key={each} href={`#/${each}`} aria-current={each === view.value ? 'page' : undefined}>
            <Icon name={each} />
            {TITLES[each]}
          </a>
        ))}
      </nav>
      <footer class="tools">
        <button
          type="button"
          class="quiet round"
          aria-label={theme.value === 'dark' ? 'Light theme' : 'Dark theme'}
          onClick={toggleTheme}
        >
          <Icon name={theme.value === 'dark' ? 'sun' : 'moon'} />
        </button>
        <button
          type="button"
          class="quiet round wide-only"
          aria-label="Keyboard"
          onClick={() => (isHelpOpen.value = true)}
        >
          <Icon name="keyboard" />
        </button>
        {key.value !== null && (
          <button type="button" class="quiet round" aria-label="Sign out" title="Sign out" onClick={() => useKey(null)}>
            <Icon name="key" />
          </button>
        )}
      </footer>
    </div>
  );
}

/** State of the daemon, one word and a dot. */
function Status(): JSX.Element {
  const state = connection.value === 'online' ? (health.value?.state ?? 'ONLINE') : connection.value.toUpperCase();
  return (
    <span class={`status ${state.toLowerCase()}`} title={health.value?.reason ?? undefined}>
      {state.toLowerCase()}
    </span>
  );
}

function OfflineBanner(): JSX.Element | null {
  const isOffline = connection.value === 'offline';
  const wasOffline = useRef(false);
  useEffect(() => {
    if (isOffline) announce('svc does not answer. This page connects again by itself.');
    else if (wasOffline.current) announce('svc answers again.');
    wasOffline.current = isOffline;
  }, [isOffline]);
  if (!isOffline) return null;
  return <p class="banner">svc does not answer. This page connects again by itself; nothing that it shows is lost.</p>;
}
