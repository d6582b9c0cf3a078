/** What happens to a keyword that cannot be enforced. */
import { invalid } from '../../../protocol/validate.ts';

/** Throws INVALID_REQUEST, naming `path`, or returns: then the caller leaves the keyword out. */
export type LeaveOut = (path: string, why?: string) => void;

export function leaveOutIf(isLenient: boolean): LeaveOut {
  return (path, why = 'cannot be enforced') => {
    if (!isLenient) throw invalid(path, why);
  };
}
