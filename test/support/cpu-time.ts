/** CPU time that this process has used, in milliseconds, with all its threads: other load on the machine does not count. */
export function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
