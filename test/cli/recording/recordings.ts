/** Where the recordings are. */
import { join } from 'node:path';
import { root } from '../../architecture/source-files.ts';

export const SIZES = ['80x24', '60x20'] as const;

export function pathOf(size: (typeof SIZES)[number], extension: 'cast' | 'svg'): string {
  return join(root, 'docs', 'images', `first-hour-${size}.${extension}`);
}
