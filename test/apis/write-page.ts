/** Writes docs/apis.md. */
import { writeFileSync } from 'node:fs';
import { APIS } from './apis.ts';
import { pageOf } from './page.ts';

writeFileSync('docs/apis.md', await pageOf(APIS));
