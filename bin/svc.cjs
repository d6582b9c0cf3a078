#!/usr/bin/env node
// CommonJS, as the programs in dist/: scripts/steps/bundle.js says why.
'use strict';
const { existsSync } = require('node:fs');
const { join } = require('node:path');

const main = join(__dirname, '..', 'dist', 'cli', 'main.cjs');
if (existsSync(main)) {
  require(main);
} else {
  console.error('svc: this checkout has not been built');
  console.error('hint: run `npm run build`, or run it from source: npm run dev -- <command>');
  process.exitCode = 1;
}
