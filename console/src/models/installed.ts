import { signal } from '@preact/signals';

/** Grows when this page has added models, or found one damaged: lists of models are then out of date. */
export const installedChanges = signal(0);
