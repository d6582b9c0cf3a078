// Releases pages of mapped files that are no longer needed.
#pragma once

namespace svc {

// Releases the memory pages of all regular files that are mapped shared and read-only. A model's
// file is mapped for loading, and weights that kernels or devices need in another layout are copied
// out of it. The pages copied from still count as memory of the process, as much again as the
// model. A page that is needed again comes back from the page cache when it is touched. Linux only;
// elsewhere it does nothing. Thread: any.
void ForgetMappedPages();

}  // namespace svc
