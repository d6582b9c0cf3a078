/** `format`: GBNF for the text between the quotes. Narrower than the standards, so that every text is valid. */
const MONTHS = '("0" [13578] | "1" [02])';
const DATE =
  `[0-9]{4} "-" (${MONTHS} "-" ("0" [1-9] | [12] [0-9] | "3" [01]) | ` +
  '("0" [469] | "11") "-" ("0" [1-9] | [12] [0-9] | "30") | "02-" ("0" [1-9] | "1" [0-9] | "2" [0-8]))';
const HOURS = '([01] [0-9] | "2" [0-3])';
const TIME = `${HOURS} ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{1,6})? ("Z" | [+-] ${HOURS} ":" [0-5] [0-9])`;
const BYTE = '("25" [0-5] | "2" [0-4] [0-9] | "1" [0-9] [0-9] | [1-9] [0-9] | [0-9])';
const LABEL = '[a-z0-9] ([a-z0-9-]{0,20} [a-z0-9])?';
const HOST = `${LABEL} ("." ${LABEL}){0,4} "." [a-z]{2,12}`;

const NUMBER = '[0-9]{1,4}';
const CLOCK = `(${NUMBER} "H" (${NUMBER} "M" (${NUMBER} "S")?)? | ${NUMBER} "M" (${NUMBER} "S")? | ${NUMBER} "S")`;

export const FORMATS: Readonly<Record<string, string>> = {
  date: DATE,
  time: TIME,
  'date-time': `${DATE} "T" ${TIME}`,
  duration: `"P" (${NUMBER} "D" ("T" ${CLOCK})? | "T" ${CLOCK})`,
  uuid: '[0-9a-f]{8} "-" [0-9a-f]{4} "-" [1-5] [0-9a-f]{3} "-" [89ab] [0-9a-f]{3} "-" [0-9a-f]{12}',
  uuid4: '[0-9a-f]{8} "-" [0-9a-f]{4} "-4" [0-9a-f]{3} "-" [89ab] [0-9a-f]{3} "-" [0-9a-f]{12}',
  ipv4: `${BYTE} ("." ${BYTE}){3}`,
  ipv6: '[0-9a-f]{1,4} (":" [0-9a-f]{1,4}){7}',
  hostname: HOST,
  email: `[a-zA-Z0-9] [a-zA-Z0-9_+-]{0,30} ("." [a-zA-Z0-9_+-]{1,20}){0,3} "@" ${HOST}`,
  uri: `"http" "s"? "://" ${HOST} (":" [1-9] [0-9]{1,3})? ("/" [a-zA-Z0-9._~-]{0,60}){0,12} ("?" [a-zA-Z0-9._~=&-]{1,80})? ("#" [a-zA-Z0-9._~-]{1,40})?`,
};
