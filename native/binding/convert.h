// Conversion between the engine's types and the objects of src/engine/addon.ts, where a table of
// fields (fields.h) is not enough. JavaScript thread.
#pragma once

#include <napi.h>

#include <string>
#include <vector>

#include "engine/engine.h"

namespace svc::binding {

// The Read functions throw INVALID_REQUEST with the field's name. They may run the caller's
// JavaScript (getters).
LoadOptions ReadLoadOptions(Napi::Value path, Napi::Value options);
// Sampling parameters that the request lacks are taken from `defaults`.
GenerationRequest ReadRequest(Napi::Value value, SamplingParams defaults, std::uint32_t vocabulary);
EmbeddingRequest ReadEmbeddingRequest(Napi::Value value, std::uint32_t vocabulary);
RerankRequest ReadRerankRequest(Napi::Value value);
// An Int32Array of ids below `vocabulary`.
std::vector<Token> ReadTokens(Napi::Value value, std::uint32_t vocabulary);

// One character for each byte.
Napi::Value ToLatin1(Napi::Env env, const std::string& bytes);
Napi::Object ToObject(Napi::Env env, const ModelInfo& info);
Napi::Object ToObject(Napi::Env env, const EngineStats& stats);
Napi::Object ToObject(Napi::Env env, const GenerationOutput& output);

}  // namespace svc::binding
