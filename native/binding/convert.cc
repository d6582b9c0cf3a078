#include "binding/convert.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "binding/arguments.h"
#include "binding/errors.h"
#include "binding/fields.h"

namespace svc::binding {
namespace {

// 32 hexadecimal digits.
std::array<std::uint64_t, 2> ReadKey(Napi::Value value, const std::string& name) {
  const std::string digits = ReadString(value, name);
  const auto is_digit = [](unsigned char each) { return std::isxdigit(each) != 0; };
  if (digits.size() != 32 || !std::ranges::all_of(digits, is_digit)) {
    throw InvalidRequest(value.Env(), name + " must have 32 hexadecimal digits");
  }
  return {std::stoull(digits.substr(0, 16), nullptr, 16),
          std::stoull(digits.substr(16), nullptr, 16)};
}

// Throws INVALID_REQUEST for a token that is not in the vocabulary.
void CheckTokens(Napi::Env env, const std::vector<Token>& tokens, std::uint32_t vocabulary) {
  const auto outside = std::ranges::find_if(tokens, [&](Token token) {
    return token < 0 || static_cast<std::uint32_t>(token) >= vocabulary;
  });
  if (outside == tokens.end()) return;
  throw InvalidRequest(env, "token " + std::to_string(*outside) + " is not in the vocabulary of " +
                                std::to_string(vocabulary));
}

Napi::Object ToObject(Napi::Env env, const TokenLogprob& token) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("bytes", ToLatin1(env, token.bytes));
  object.Set("logprob", token.logprob);
  return object;
}

Napi::Array ToArray(Napi::Env env, const std::vector<TokenLogprobs>& logprobs) {
  Napi::Array tokens = Napi::Array::New(env, logprobs.size());
  for (std::uint32_t i = 0; i < logprobs.size(); ++i) {
    const std::vector<TokenLogprob>& alternatives = logprobs[i].top;
    Napi::Array top = Napi::Array::New(env, alternatives.size());
    for (std::uint32_t j = 0; j < alternatives.size(); ++j) {
      top.Set(j, ToObject(env, alternatives[j]));
    }
    Napi::Object token = ToObject(env, logprobs[i].chosen);
    token.Set("top", top);
    tokens.Set(i, token);
  }
  return tokens;
}

Napi::Object ToObject(Napi::Env env, const Status& status) {
  Napi::Object error = Napi::Object::New(env);
  error.Set("code", StatusCodeName(status.code()));
  error.Set("message", status.message());
  SetDetails(env, status, &error);
  return error;
}

}  // namespace

Napi::Value ToLatin1(Napi::Env env, const std::string& bytes) {
  napi_value text = nullptr;
  napi_create_string_latin1(env, bytes.data(), bytes.size(), &text);
  return {env, text};
}

LoadOptions ReadLoadOptions(Napi::Value path, Napi::Value options) {
  LoadOptions load;
  load.path = ReadString(path, "path");
  const Napi::Object object = ReadObject(options, "options");
  ReadRecord(object, "", load);
  ReadField(object, "prefix_key", [&](Napi::Value value, const std::string& name) {
    load.prefix_key = ReadKey(value, name);
  });
  std::vector<const std::string*> files = {&load.path, &load.prefix_folder, &load.draft_path,
                                           &load.projector_path};
  for (const AdapterFile& adapter : load.adapters) files.push_back(&adapter.path);
  for (const std::string* file : files) {
    if (file->find('\0') != std::string::npos) {
      throw InvalidRequest(path.Env(), "a path must not contain a null character");
    }
  }
  const auto in_name = [](unsigned char each) { return std::isalnum(each) != 0; };
  if (!std::ranges::all_of(load.prefix_model, in_name)) {
    throw InvalidRequest(path.Env(), "prefix_model must be alphanumeric");
  }
  return load;
}

GenerationRequest ReadRequest(Napi::Value value, SamplingParams defaults,
                              std::uint32_t vocabulary) {
  const Napi::Object object = ReadObject(value, "request");
  GenerationRequest request;
  request.sampling = std::move(defaults);
  ReadRecord(object, "", request);
  CheckTokens(value.Env(), request.prompt_tokens, vocabulary);
  if (request.continuation) CheckTokens(value.Env(), request.continuation->tokens, vocabulary);
  const bool chat = !object.Get("messages").IsUndefined();
  const bool raw = !object.Get("prompt").IsUndefined() || !request.prompt_tokens.empty();
  if (chat == raw) {
    throw InvalidRequest(value.Env(), "a request must have either messages or a prompt");
  }
  if (chat && request.messages.empty()) {
    throw InvalidRequest(value.Env(), "messages must not be empty");
  }
  return request;
}

EmbeddingRequest ReadEmbeddingRequest(Napi::Value value, std::uint32_t vocabulary) {
  const Napi::Object object = ReadObject(value, "request");
  EmbeddingRequest request;
  ReadRecord(object, "", request);
  ReadElements(object.Get("input"), "input", [&](Napi::Value input, const std::string& name) {
    if (input.IsString()) {
      request.input.emplace_back(ReadString(input, name));
    } else {
      request.input.emplace_back(ReadTokens(input, vocabulary));
    }
  });
  return request;
}

RerankRequest ReadRerankRequest(Napi::Value value) {
  RerankRequest request;
  ReadRecord(ReadObject(value, "request"), "", request);
  return request;
}

std::vector<Token> ReadTokens(Napi::Value value, std::uint32_t vocabulary) {
  const Napi::Env env = value.Env();
  if (!value.IsTypedArray() || value.As<Napi::TypedArray>().TypedArrayType() != napi_int32_array) {
    throw InvalidRequest(env, "tokens must be an Int32Array");
  }
  const auto array = value.As<Napi::Int32Array>();
  // Copied before it is checked: another thread may write to a shared buffer.
  std::vector<Token> tokens(array.Data(), array.Data() + array.ElementLength());
  CheckTokens(env, tokens, vocabulary);
  return tokens;
}

Napi::Object ToObject(Napi::Env env, const ModelInfo& info) {
  Napi::Object object = ToObject(env, info, ModelInfo::Fields());
  object.Freeze();
  return object;
}

Napi::Object ToObject(Napi::Env env, const EngineStats& stats) {
  Napi::Object object = ToObject(env, stats, EngineStats::Fields());
  object.Set("steps", ToObject(env, stats, EngineStats::StepFields()));
  return object;
}

Napi::Object ToObject(Napi::Env env, const GenerationOutput& output) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("id", output.id);
  object.Set("text", output.text);
  if (!output.reasoning.empty()) object.Set("reasoning", output.reasoning);
  if (!output.tool_calls.empty()) object.Set("tool_calls", ToValue(env, output.tool_calls));
  if (!output.embeddings.empty()) {
    auto embeddings = Napi::Float32Array::New(env, output.embeddings.size());
    std::ranges::copy(output.embeddings, embeddings.Data());
    object.Set("embeddings", embeddings);
  }
  if (!output.logprobs.empty()) object.Set("logprobs", ToArray(env, output.logprobs));
  if (!output.tokens.empty()) object.Set("tokens", ToValue(env, output.tokens));
  if (output.cells) object.Set("cells", ToObject(env, *output.cells, CellDemand::Fields()));
  if (!output.done) return object;
  if (!output.status.ok()) {
    object.Set("error", ToObject(env, output.status));
    return object;
  }
  Napi::Object finish = Napi::Object::New(env);
  finish.Set("reason", Names(output.reason)[static_cast<std::size_t>(output.reason)]);
  finish.Set("usage", ToObject(env, output.usage));
  finish.Set("timings", ToObject(env, output.timings));
  if (output.stop_string) finish.Set("stop_string", *output.stop_string);
  if (output.repetition) finish.Set("repetition", ToObject(env, *output.repetition));
  object.Set("finish", finish);
  return object;
}

}  // namespace svc::binding
