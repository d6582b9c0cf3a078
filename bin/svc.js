#!/usr/bin/env node
import { existsSync } from 'node:fs';

const main = new URL('../dist/cli/main.js', import.meta.url);
if (existsSync(main)) {
  await import(main);
} else {
  console.error('svc: this checkout has not been built');
  console.error('hint: run `npm run build`, or run it from source: npm run dev -- <command>');
  process.exitCode = 1;
}
