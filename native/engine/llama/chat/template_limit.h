// Makes chat templates observe the WorkLimit of the rendering thread.
//
// A template comes with the model's file and can loop or recurse endlessly. llama.cpp's interpreter
// does not limit its work, so a statement that checks the limit is inserted at the beginning of
// every loop and macro body.
#pragma once

struct common_chat_templates;

namespace svc {

// Inserts the checks. Afterwards, rendering throws std::runtime_error once the limit is exceeded.
// Long work outside loops and macros, such as `range(10 ** 12)`, is not covered: the daemon ends an
// engine that prepares one request for too long (stall-watch.ts). REQUIRES: no other thread uses
// `templates` yet.
void LimitTemplates(common_chat_templates* templates);

}  // namespace svc
