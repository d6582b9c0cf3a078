/** An engine process that crashes at the first word. */
import { Socket } from 'node:net';

new Socket({ fd: 3 }).once('data', () => {
  process.kill(process.pid, 'SIGSEGV');
});
