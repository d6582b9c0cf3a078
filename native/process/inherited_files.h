// Descriptors that a process inherited from whoever started it, beyond those that it was meant to
// get.
#pragma once

namespace svc::process {

// Closes each descriptor above `last` that is not marked close-on-exec. Node and libuv mark all of
// their own, so what is left was inherited. Linux only; elsewhere does nothing.
void CloseInheritedFiles(int last);

}  // namespace svc::process
