/** Choices that this browser keeps. */
import { effect, signal, type Signal } from '@preact/signals';

/**
 * A signal that is kept in local storage under `name`, and follows the other tabs; `isValid` judges what an older page
 * has left there.
 */
export function stored<Value>(
  name: string,
  initial: Value,
  isValid: (value: unknown) => value is Value,
): Signal<Value> {
  const state = signal(read(name, initial, isValid));
  effect(() => {
    const text = JSON.stringify(state.value);
    try {
      localStorage.setItem(name, text);
    } catch {
      // Full, or forbidden by the browser: the choice then lasts as long as the page.
    }
  });
  addEventListener('storage', ({ key }) => {
    if (key === name) state.value = read(name, initial, isValid);
  });
  return state;
}

function read<Value>(name: string, initial: Value, isValid: (value: unknown) => value is Value): Value {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(name) ?? 'null');
    return isValid(value) ? value : initial;
  } catch {
    return initial;
  }
}

export const isBoolean = (value: unknown): value is boolean => typeof value === 'boolean';
