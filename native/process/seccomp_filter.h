// System calls that an engine never makes and hostile code in one would.
#pragma once

namespace svc::process {

// Installs a filter for all threads of this process; the calls below then fail with EPERM. Returns
// 0 or errno; ENOTSUP on other systems and processors. REQUIRES: no_new_privs is set.
//
// The filter names what is refused, not what is allowed: GPU drivers and Node may call anything
// harmless. Numbers above the newest that was known when this was written, and calls of other ABIs
// (32-bit, x32), fail with ENOSYS.
int InstallFilter();

}  // namespace svc::process
