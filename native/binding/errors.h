// How a Status becomes a JavaScript error.
//
// C++ exceptions are on in native/binding, and only here: reading a JavaScript value can run any
// JavaScript (a getter, a proxy) and so fail anywhere, and an exception that unwinds is the one way
// no such failure is forgotten. None leaves the folder: node-addon-api turns each into a JavaScript
// exception at the edge, and the engine below reports by Status.
#pragma once

#include <napi.h>

#include <string>

#include "engine/base/status.h"

namespace svc::binding {

// `new ErrorClass(code, message, {param})` of the class handed to setErrorClass; before that, a
// plain Error with `code`. REQUIRES: !status.ok().
Napi::Error MakeError(Napi::Env env, const Status& status);

// For `throw`: INVALID_REQUEST.
Napi::Error InvalidRequest(Napi::Env env, const std::string& message);

// Calls a function of the caller's from a callback of ours. What it throws becomes an uncaught
// exception, as from any other event handler, and never unwinds our own work.
void CallListener(const Napi::Function& listener, std::initializer_list<napi_value> arguments);

}  // namespace svc::binding
