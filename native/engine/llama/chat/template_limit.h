// Makes chat templates observe the WorkLimit of the thread that renders them.
//
// A template comes with the model's file and can loop or recurse without end. llama.cpp's
// interpreter has no limit on its work, so a statement that checks the limit is put at the
// beginning of every loop's and every macro's body.
#pragma once

struct common_chat_templates;

namespace svc {

// REQUIRES: no other thread uses `templates` yet. Rendering then throws std::runtime_error once the
// limit is exceeded. What runs long without a loop or a macro, as `range(10 ** 12)` does, is not
// covered: the daemon ends an engine that prepares one request for too long (stall-watch.ts).
void LimitTemplates(common_chat_templates* templates);

}  // namespace svc
