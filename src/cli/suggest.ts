export { suggest } from '../protocol/suggest.ts';
