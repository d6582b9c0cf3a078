// Gives up privileges of the calling thread that an engine does not need.
#pragma once

namespace svc::process {

// Both functions are async-signal-safe and return 0 or an errno; ENOTSUP on systems other than
// Linux.

// Sets no_new_privs: exec gives this thread, and the threads that it creates, no new privileges.
int ForbidNewPrivileges();

// Empties the capability sets: ambient, bounding (where CAP_SETPCAP is held), effective, permitted,
// inheritable. `keep_reading` keeps CAP_DAC_READ_SEARCH if it is held, with which a root process
// opens files of other users.
int DropCapabilities(bool keep_reading);

}  // namespace svc::process
