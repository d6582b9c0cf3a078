#include "binding/errors.h"

#include "binding/environment.h"

namespace svc::binding {

void SetDetails(Napi::Env env, const Status& status, Napi::Object* error) {
  if (!status.param().empty()) error->Set("param", status.param());
  if (!status.overflow()) return;
  Napi::Object sizes = Napi::Object::New(env);
  sizes.Set("prompt_tokens", static_cast<double>(status.overflow()->prompt_tokens));
  sizes.Set("is_minimum", status.overflow()->is_minimum);
  sizes.Set("context_length", status.overflow()->context_length);
  error->Set("overflow", sizes);
}

Napi::Error MakeError(Napi::Env env, const Status& status) {
  const auto code = Napi::String::New(env, StatusCodeName(status.code()));
  const auto message = Napi::String::New(env, status.message());
  const Napi::FunctionReference& error_class = Environment::Of(env).error_class;
  Napi::Object details = Napi::Object::New(env);
  SetDetails(env, status, &details);
  if (!error_class.IsEmpty()) return {env, error_class.New({code, message, details})};
  Napi::Error error = Napi::Error::New(env, status.message());
  error.Set("code", code);
  return error;
}

Napi::Error InvalidRequest(Napi::Env env, const std::string& message) {
  return MakeError(env, Status(StatusCode::kInvalidRequest, message));
}

void CallListener(const Napi::Function& listener, std::initializer_list<napi_value> arguments) {
  try {
    listener.Call(arguments);
  } catch (const Napi::Error& error) {
    napi_fatal_exception(error.Env(), error.Value());
  }
}

}  // namespace svc::binding
