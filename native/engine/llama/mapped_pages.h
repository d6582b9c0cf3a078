// Pages of mapped files that are in memory though nobody needs them.
#pragma once

namespace svc {

// A model's file is mapped to be loaded, and what kernels or devices want laid out otherwise is
// copied out of it; the pages that it was copied from then still count as the process's memory, as
// much again as the model. Forgets the pages of all files that are mapped to be read; one that is
// needed comes back from the system's cache when it is touched. On Linux; elsewhere nothing
// happens. Thread: any.
void ForgetMappedPages();

}  // namespace svc
