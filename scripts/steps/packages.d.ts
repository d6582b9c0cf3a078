export function lockedDependencies(): Promise<Map<string, string>>;
