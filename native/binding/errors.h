// Conversion of a Status to a JavaScript error. JavaScript thread.
//
// Only native/binding uses C++ exceptions for errors: reading a JavaScript value can run any
// JavaScript (a getter, a proxy) and so can fail anywhere; with exceptions no failure is missed.
// node-addon-api turns them into JavaScript exceptions; the engine reports errors by Status.
#pragma once

#include <napi.h>

#include <string>

#include "engine/base/status.h"

namespace svc::binding {

// Sets the `param` and `overflow` that the status has.
void SetDetails(Napi::Env env, const Status& status, Napi::Object* error);

// Returns `new ErrorClass(code, message, details)` of the class passed to setErrorClass; before
// that, a plain Error with `code`. REQUIRES: !status.ok().
Napi::Error MakeError(Napi::Env env, const Status& status);

// Returns an INVALID_REQUEST error to throw.
Napi::Error InvalidRequest(Napi::Env env, const std::string& message);

// Calls a JavaScript listener from a native callback. An exception of the listener becomes an
// uncaught exception, as in any event handler; it does not unwind the caller.
void CallListener(const Napi::Function& listener, std::initializer_list<napi_value> arguments);

}  // namespace svc::binding
