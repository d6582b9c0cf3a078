/** Pictures that the user attaches. */
import type { Picture } from './conversation.ts';

/** The daemon's limit of one picture (src/protocol/limits.ts, `mediaBytes`). */
const MOST_BYTES = 20 * 1024 * 1024;
const TYPES: readonly string[] = [
  'image/png',
  'image/jpeg',
  'image/gif',
  'image/webp',
] satisfies Picture['media_type'][];

/** What a file dialog offers. */
export const ACCEPTED = TYPES.join(',');

/** Returns the pictures among the files, and sentences about those that are left out. */
export async function readPictures(files: Iterable<File>): Promise<{ pictures: Picture[]; problems: string[] }> {
  const pictures: Picture[] = [];
  const problems: string[] = [];
  for (const file of files) {
    if (!isPictureType(file.type)) problems.push(`${file.name} is not a PNG, JPEG, GIF or WebP picture.`);
    else if (file.size > MOST_BYTES) problems.push(`${file.name} is larger than 20 MB.`);
    else pictures.push({ name: file.name, media_type: file.type, data: await base64Of(file) });
  }
  return { pictures, problems };
}

export function sourceOf({ media_type, data }: Picture): string {
  return `data:${media_type};base64,${data}`;
}

function isPictureType(type: string): type is Picture['media_type'] {
  return TYPES.includes(type);
}

async function base64Of(file: File): Promise<string> {
  const reader = new FileReader();
  await new Promise((resolve, reject) => {
    reader.onload = resolve;
    reader.onerror = () => reject(new Error(`cannot read ${file.name}`));
    reader.readAsDataURL(file);
  });
  const { result } = reader;
  return typeof result !== 'string' ? '' : result.replace(/^[^,]*,/, '');
}
