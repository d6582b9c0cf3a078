/** As cmake.js. */
export function configureFolder(folder: string, configure: () => Promise<unknown>): Promise<void>;
export function readOnce(): string[];
