/** What the console's page consists of: its size, its licences, and that nothing in it is inline or from elsewhere. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { buildConsole, bundledPackages, CONSOLE } from '../../scripts/steps/console.js';
import { read, root } from '../architecture/source-files.ts';

const MOST_BYTES = 250_000;

test.before(() => buildConsole());

test('all of the page is less than 250 kB, compressed', async () => {
  const names = await readdir(join(root, CONSOLE));
  const sizes = await Promise.all(
    names.map(async (name) => gzipSync(await readFile(join(root, CONSOLE, name))).length),
  );
  const total = sizes.reduce((sum, size) => sum + size, 0);
  assert.ok(total > 10_000 && total < MOST_BYTES, `${String(total)} bytes`);
});

test('the notices have the licence of each bundled package, and its name', async () => {
  const words = (text: string): string => text.replace(/\s+/g, ' ').trim();
  const notices = words(read('THIRD_PARTY_NOTICES.md'));
  const packages = await bundledPackages();
  assert.ok(packages.includes('preact') && packages.includes('uplot'), packages.join());
  const missing = packages.filter((name) => !notices.includes(words(read(`node_modules/${name}/LICENSE`))));
  assert.equal(missing, []);
});

test('the document has no inline script or style, and refers only to files of the console', async () => {
  const html = await readFile(join(root, CONSOLE, 'index.html'), 'utf8');
  assert.not.match(html, /<style|style=|\son\w+=|javascript:/i);
  assert.equal(
    [...html.matchAll(/<script[^>]*>([^<]*)<\/script>/g)].map(([, text]) => text),
    [''],
  );
  const targets = [...html.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, target]) => target);
  assert.equal(
    targets.filter((target) => !/^\/console\/[\w.]+$/.test(target ?? '')),
    [],
  );
  assert.not.match(await readFile(join(root, CONSOLE, 'console.css'), 'utf8'), /url\(\s*["']?(?!data:)/);
});

test('the page itself is typed, and uses no method that turns text into markup but through the sanitiser', async () => {
  const files = (await readdir(join(root, 'console', 'src'), { recursive: true })).filter((name) =>
    /\.tsx?$/.test(name),
  );
  const found = files.filter((name) =>
    /innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|\beval\(|new Function/.test(
      read(join('console', 'src', name)),
    ),
  );
  assert.equal(found, []);
  assert.ok(files.length > 20);
});

test.run();
