export function fetchDependencies(): Promise<string>;
