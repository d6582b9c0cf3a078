// File descriptors that this process inherited from its parent by accident.
#pragma once

namespace svc::process {

// Closes each descriptor above `last` that is not marked close-on-exec. Node and libuv mark all
// their own descriptors, so an unmarked one was inherited. Linux only; elsewhere does nothing.
void CloseInheritedFiles(int last);

}  // namespace svc::process
