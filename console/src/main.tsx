/** Starts the console. */
import { render } from 'preact';
import { App } from './app.tsx';
import { signInByLink } from './sign-in.tsx';
import { connect } from './state/connection.ts';
import { listen } from './state/shortcuts.ts';

const place = document.getElementById('app');
if (place === null) throw new Error('the page has no #app');

// First: without the key that the link gives, every other request could be refused.
await signInByLink();
// In a tab that is open already, a link changes only the address.
addEventListener('hashchange', () => void signInByLink());
connect();
listen();
render(<App />, place);
