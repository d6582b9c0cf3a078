/** Prints what a command has found or done. Text fits the terminal; a pipe gets it as it is. */
import { fit } from './layout.ts';
import { out, print, printJson } from './output.ts';

/** Prints text; on a terminal, lines that are too long are wrapped at words. For values that are copied: `print`. */
export function printText(text: string): void {
  print(fit(text, out.tableColumns));
}

/** Prints what a command has found or done: as JSON, or as text. */
export function printResult(json: boolean, record: unknown, text: string): void {
  if (json) printJson(record);
  else printText(text);
}

/** The same for a value that is copied or read by a program: its text is never wrapped. */
export function printValue(json: boolean, record: unknown, text: string): void {
  if (json) printJson(record);
  else print(text);
}
