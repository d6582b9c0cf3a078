/**
 * Preloaded into a test file by `npm test -- --starved`: stops its main thread for 0.2 to 0.5 s, again and again, as on a
 * machine where other programs take the processor. What it started goes on meanwhile: an answer that a test believes to
 * be under way has ended, and several lines arrive at once.
 */
import { isMainThread } from 'node:worker_threads';

const cell = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));

function run() {
  setTimeout(starve, 5 + 150 * Math.random()).unref();
}

function starve() {
  Atomics.wait(cell, 0, 0, 200 + 300 * Math.random());
  run();
}

if (isMainThread) run();
