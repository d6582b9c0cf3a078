// Privileges of the calling thread that an engine does not need.
#pragma once

namespace svc::process {

// Both are async-signal-safe, never gain anything, and return 0 or errno. Linux only.

// Sets no_new_privs: no exec gives this thread, or those that it creates, more than it has.
int ForbidNewPrivileges();

// Empties the capability sets: ambient, bounding (where CAP_SETPCAP is held), effective, permitted,
// inheritable. `keep_reading` keeps CAP_DAC_READ_SEARCH if it is held: a root process opens files
// of other users by it.
int DropCapabilities(bool keep_reading);

}  // namespace svc::process
