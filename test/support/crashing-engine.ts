/** An engine process that crashes on the first data it receives. */
import { Socket } from 'node:net';

new Socket({ fd: 3 }).once('data', () => {
  process.kill(process.pid, 'SIGSEGV');
});
