#include "binding/convert.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "binding/arguments.h"
#include "binding/errors.h"

namespace svc::binding {
namespace {

// Limits that libllama does not check: a larger value ends the process.
constexpr std::uint32_t kMaxContextLength = 1U << 24U;  // no model is trained for more
constexpr int kMaxThreads = 512;                        // GGML_MAX_N_THREADS

constexpr std::uint32_t kMaxAlternatives = 20;  // LIMITS.topLogprobs

template <typename Integer>
auto IntegerInto(Integer& target, Integer min = 0,
                 Integer max = std::numeric_limits<Integer>::max()) {
  return [&target, min, max](Napi::Value value, const std::string& name) {
    target = ReadInteger<Integer>(value, name, min, max);
  };
}

auto FloatInto(float& target) {
  return [&target](Napi::Value value, const std::string& name) { target = ReadFloat(value, name); };
}

auto BooleanInto(bool& target) {
  return
      [&target](Napi::Value value, const std::string& name) { target = ReadBoolean(value, name); };
}

std::pair<Token, float> ReadBias(Napi::Value value, const std::string& name) {
  const Napi::Array pair = ReadArray(value, name);
  if (pair.Length() != 2)
    throw InvalidRequest(value.Env(), name + " must be a pair of token and bias");
  return {ReadInteger<Token>(pair.Get(0U), name + "[0]"), ReadFloat(pair.Get(1U), name + "[1]")};
}

SamplingParams ReadSampling(Napi::Object request, SamplingParams sampling) {
  ReadField(request, "temperature", FloatInto(sampling.temperature));
  ReadField(request, "topK", IntegerInto(sampling.top_k));
  ReadField(request, "topP", FloatInto(sampling.top_p));
  ReadField(request, "minP", FloatInto(sampling.min_p));
  ReadField(request, "repeatPenalty", FloatInto(sampling.repeat_penalty));
  ReadField(request, "frequencyPenalty", FloatInto(sampling.frequency_penalty));
  ReadField(request, "presencePenalty", FloatInto(sampling.presence_penalty));
  ReadField(request, "seed", [&](Napi::Value value, const std::string& name) {
    sampling.seed = ReadInteger<std::uint32_t>(value, name);
  });
  ReadField(request, "logitBias", [&](Napi::Value value, const std::string& name) {
    ReadElements(value, name, [&](Napi::Value element, const std::string& element_name) {
      sampling.logit_bias.push_back(ReadBias(element, element_name));
    });
  });
  return sampling;
}

ChatMessage ReadMessage(Napi::Value value, const std::string& name) {
  const Napi::Object message = ReadObject(value, name);
  return {.role = ReadString(message.Get("role"), name + ".role"),
          .content = ReadString(message.Get("content"), name + ".content")};
}

Priority ReadPriority(Napi::Value value, const std::string& name) {
  const std::string priority = ReadString(value, name);
  if (priority == "interactive") return Priority::kInteractive;
  if (priority == "batch") return Priority::kBatch;
  throw InvalidRequest(value.Env(), name + " must be interactive or batch");
}

CacheType ReadCacheType(Napi::Value value, const std::string& name) {
  const std::string type = ReadString(value, name);
  if (type == "f16") return CacheType::kF16;
  if (type == "q8_0") return CacheType::kQ8_0;
  throw InvalidRequest(value.Env(), name + " must be f16 or q8_0");
}

std::string ReadPath(Napi::Value value, const std::string& name) {
  std::string path = ReadString(value, name);
  if (path.find('\0') != std::string::npos) {
    throw InvalidRequest(value.Env(), name + " must not contain a null character");
  }
  return path;
}

// 32 hexadecimal digits.
std::array<std::uint64_t, 2> ReadKey(Napi::Value value, const std::string& name) {
  const std::string digits = ReadString(value, name);
  const auto is_digit = [](unsigned char each) { return std::isxdigit(each) != 0; };
  if (digits.size() != 32 || !std::all_of(digits.begin(), digits.end(), is_digit)) {
    throw InvalidRequest(value.Env(), name + " must have 32 hexadecimal digits");
  }
  return {std::stoull(digits.substr(0, 16), nullptr, 16),
          std::stoull(digits.substr(16), nullptr, 16)};
}

const char* Name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "stop";
}

Napi::Value NumberOrNull(Napi::Env env, double value, bool known) {
  return known ? Napi::Number::New(env, value) : env.Null();
}

// One character for each byte.
Napi::Value Latin1(Napi::Env env, const std::string& bytes) {
  napi_value text = nullptr;
  napi_create_string_latin1(env, bytes.data(), bytes.size(), &text);
  return {env, text};
}

Napi::Object ToObject(Napi::Env env, const TokenLogprob& token) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("bytes", Latin1(env, token.bytes));
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

Napi::Number Count(Napi::Env env, std::uint64_t value) {
  return Napi::Number::New(env, static_cast<double>(value));
}

Napi::Value CountOrNull(Napi::Env env, std::optional<std::uint64_t> value) {
  return NumberOrNull(env, static_cast<double>(value.value_or(0)), value.has_value());
}

Napi::Object ToObject(Napi::Env env, const DeviceMemory& device) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("name", device.name);
  object.Set("isHost", device.is_host);
  object.Set("weightsBytes", Count(env, device.weights_bytes));
  object.Set("mappedBytes", Count(env, device.mapped_bytes));
  object.Set("cacheBytes", Count(env, device.cache_bytes));
  object.Set("computeBytes", Count(env, device.compute_bytes));
  object.Set("freeBytes", CountOrNull(env, device.free_bytes));
  object.Set("totalBytes", CountOrNull(env, device.total_bytes));
  return object;
}

Napi::Object ToObject(Napi::Env env, const MemoryEstimate& estimate) {
  Napi::Array devices = Napi::Array::New(env, estimate.devices.size());
  for (std::uint32_t i = 0; i < estimate.devices.size(); ++i) {
    devices.Set(i, ToObject(env, estimate.devices[i]));
  }
  Napi::Object object = Napi::Object::New(env);
  object.Set("contextLength", estimate.context_length);
  object.Set("devices", devices);
  return object;
}

}  // namespace

LoadOptions ReadLoadOptions(Napi::Value path, Napi::Value options) {
  LoadOptions load;
  load.path = ReadPath(path, "path");
  const Napi::Object object = ReadObject(options, "options");
  ReadField(object, "contextLength", [&](Napi::Value value, const std::string& name) {
    load.context_length = ReadContextLength(value, name);
  });
  ReadField(object, "threads", IntegerInto(load.threads, 0, kMaxThreads));
  ReadField(object, "promptThreads", IntegerInto(load.prompt_threads, 0, kMaxThreads));
  ReadField(object, "gpuLayers", IntegerInto(load.gpu_layers, std::numeric_limits<int>::min()));
  ReadField(object, "maxSequences", IntegerInto(load.max_sequences));
  ReadField(object, "prefixFolder", [&](Napi::Value value, const std::string& name) {
    load.prefix_folder = ReadString(value, name);
  });
  ReadField(object, "prefixModel", [&](Napi::Value value, const std::string& name) {
    load.prefix_model = ReadString(value, name);
  });
  ReadField(object, "prefixBytes", [&](Napi::Value value, const std::string& name) {
    load.prefix_bytes =
        static_cast<std::uint64_t>(ReadWholeNumber(value, name, 0, std::int64_t{1} << 50U));
  });
  ReadField(object, "prefixKey", [&](Napi::Value value, const std::string& name) {
    load.prefix_key = ReadKey(value, name);
  });
  ReadField(object, "draftPath", [&](Napi::Value value, const std::string& name) {
    load.draft_path = ReadPath(value, name);
  });
  const auto in_name = [](unsigned char each) { return std::isalnum(each) != 0; };
  if (!std::all_of(load.prefix_model.begin(), load.prefix_model.end(), in_name) ||
      load.prefix_folder.find('\0') != std::string::npos) {
    throw InvalidRequest(path.Env(),
                         "prefixModel must be alphanumeric, prefixFolder without null characters");
  }
  ReadField(object, "cacheType", [&](Napi::Value value, const std::string& name) {
    load.cache_type = ReadCacheType(value, name);
  });
  return load;
}

std::uint32_t ReadContextLength(Napi::Value value, const std::string& name) {
  return ReadInteger<std::uint32_t>(value, name, 0, kMaxContextLength);
}

GenerationId ReadGenerationId(Napi::Value value, const std::string& name) {
  return ReadInteger<GenerationId>(value, name);
}

std::vector<ChatMessage> ReadMessages(Napi::Value value, const std::string& name) {
  std::vector<ChatMessage> messages;
  ReadElements(value, name, [&](Napi::Value element, const std::string& element_name) {
    messages.push_back(ReadMessage(element, element_name));
  });
  return messages;
}

GenerationRequest ReadRequest(Napi::Value value, SamplingParams defaults) {
  const Napi::Object object = ReadObject(value, "request");
  GenerationRequest request;
  request.id = ReadGenerationId(object.Get("id"), "id");
  const bool chat = !object.Get("messages").IsUndefined();
  if (chat == !object.Get("prompt").IsUndefined()) {
    throw InvalidRequest(value.Env(), "a request must have either messages or a prompt");
  }
  if (chat) {
    request.messages = ReadMessages(object.Get("messages"), "messages");
    if (request.messages.empty()) throw InvalidRequest(value.Env(), "messages must not be empty");
  } else {
    request.prompt = ReadString(object.Get("prompt"), "prompt");
  }
  ReadField(object, "maxTokens", [&](Napi::Value field, const std::string& name) {
    request.max_tokens = ReadInteger<std::uint32_t>(field, name);
  });
  ReadField(object, "truncate", BooleanInto(request.truncate));
  ReadField(object, "stop", [&](Napi::Value field, const std::string& name) {
    ReadElements(field, name, [&](Napi::Value element, const std::string& element_name) {
      request.stop.push_back(ReadString(element, element_name));
    });
  });
  ReadField(object, "priority", [&](Napi::Value field, const std::string& name) {
    request.priority = ReadPriority(field, name);
  });
  ReadField(object, "cachePrompt", BooleanInto(request.reuse_prefix));
  ReadField(object, "share", [&](Napi::Value field, const std::string& name) {
    request.share = ReadString(field, name);
  });
  ReadField(object, "ownPrefixes", BooleanInto(request.own_prefixes));
  ReadField(object, "store", BooleanInto(request.store));
  request.sampling = ReadSampling(object, std::move(defaults));
  ReadField(object, "grammar", [&](Napi::Value field, const std::string& name) {
    request.grammar = ReadString(field, name);
    if (request.grammar.empty()) throw InvalidRequest(value.Env(), "grammar must not be empty");
  });
  ReadField(object, "logprobs", [&](Napi::Value field, const std::string& name) {
    request.logprobs = ReadInteger<std::uint32_t>(field, name, 0, kMaxAlternatives);
  });
  return request;
}

EmbeddingRequest ReadEmbeddingRequest(Napi::Value value, std::uint32_t vocabulary) {
  const Napi::Object object = ReadObject(value, "request");
  EmbeddingRequest request;
  request.id = ReadGenerationId(object.Get("id"), "id");
  ReadElements(object.Get("inputs"), "inputs", [&](Napi::Value input, const std::string& name) {
    if (input.IsString()) {
      request.inputs.emplace_back(ReadString(input, name));
    } else {
      request.inputs.emplace_back(ReadTokens(input, vocabulary));
    }
  });
  ReadField(object, "truncate", BooleanInto(request.truncate));
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
  const auto outside = std::find_if(tokens.begin(), tokens.end(), [&](Token token) {
    return token < 0 || static_cast<std::uint32_t>(token) >= vocabulary;
  });
  if (outside != tokens.end()) {
    throw InvalidRequest(env, "token " + std::to_string(*outside) +
                                  " is not in the vocabulary of " + std::to_string(vocabulary));
  }
  return tokens;
}

Napi::Object ToObject(Napi::Env env, const ModelInfo& info) {
  Napi::Object metadata = Napi::Object::New(env);
  for (const auto& [key, text] : info.metadata) metadata.Set(key, text);
  metadata.Freeze();
  Napi::Object object = Napi::Object::New(env);
  object.Set("description", info.description);
  object.Set("architecture", info.architecture);
  object.Set("quantization", info.quantization);
  object.Set("parameters", Count(env, info.parameters));
  object.Set("sizeBytes", Count(env, info.size_bytes));
  object.Set("trainedContextLength", info.trained_context_length);
  object.Set("contextLength", info.context_length);
  object.Set("vocabulary", info.vocabulary);
  object.Set("embeddingLength", info.embedding_length);
  object.Set("layers", info.layers);
  object.Set("threads", info.threads);
  object.Set("hasChatTemplate", info.has_chat_template);
  object.Set("makesEmbeddings", info.makes_embeddings);
  object.Set("draftRefusal", info.draft_refusal.empty()
                                 ? env.Null()
                                 : Napi::Value(Napi::String::New(env, info.draft_refusal)));
  object.Set("device", info.device);
  object.Set("metadata", metadata);
  object.Freeze();
  return object;
}

static Napi::Object ToObject(Napi::Env env, const StepStats& step) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("rows", step.rows);
  object.Set("promptRows", step.prompt_rows);
  object.Set("predictedMs", step.predicted_ms);
  object.Set("spentMs", step.spent_ms);
  return object;
}

Napi::Object ToObject(Napi::Env env, const EngineStats& stats) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("active", stats.active);
  object.Set("waiting", stats.waiting);
  object.Set("cellsUsed", stats.cells_used);
  object.Set("cellsCached", stats.cells_cached);
  object.Set("cellsTotal", stats.cells_total);
  object.Set("swappedTokens", stats.swapped_tokens);
  object.Set("steps", Count(env, stats.steps));
  object.Set("rows", Count(env, stats.rows));
  object.Set("promptTokens", Count(env, stats.prompt_tokens));
  object.Set("cachedTokens", Count(env, stats.cached_tokens));
  object.Set("generatedTokens", Count(env, stats.generated_tokens));
  object.Set("draftedTokens", Count(env, stats.drafted_tokens));
  object.Set("acceptedTokens", Count(env, stats.accepted_tokens));
  object.Set("preemptions", Count(env, stats.preemptions));
  object.Set("evictedCells", Count(env, stats.evicted_cells));
  object.Set("predictedMs", stats.predicted_ms);
  object.Set("spentMs", stats.spent_ms);
  object.Set("lastStep", ToObject(env, stats.last_step));
  object.Set("threads", stats.threads);
  object.Set("tokensPerSecond", stats.tokens_per_second);
  object.Set("stepAgeMs", stats.step_age_ms);
  return object;
}

Napi::Object ToObject(Napi::Env env, const Device& device) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("name", device.name);
  object.Set("description", device.description);
  object.Set("backend", device.backend);
  object.Set("type", device.type);
  object.Set("memoryTotalBytes", NumberOrNull(env, static_cast<double>(device.memory_total_bytes),
                                              device.memory_total_bytes != 0));
  object.Set("memoryFreeBytes",
             NumberOrNull(env, static_cast<double>(device.memory_free_bytes.value_or(0)),
                          device.memory_free_bytes.has_value()));
  return object;
}

Napi::Object ToObject(Napi::Env env, const GenerationOutput& output) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("id", output.id);
  object.Set("text", output.text);
  if (!output.embeddings.empty()) {
    auto embeddings = Napi::Float32Array::New(env, output.embeddings.size());
    std::copy(output.embeddings.begin(), output.embeddings.end(), embeddings.Data());
    object.Set("embeddings", embeddings);
  }
  if (!output.logprobs.empty()) object.Set("logprobs", ToArray(env, output.logprobs));
  if (!output.done) return object;
  if (!output.status.ok()) {
    Napi::Object error = Napi::Object::New(env);
    error.Set("code", StatusCodeName(output.status.code()));
    error.Set("message", output.status.message());
    if (!output.status.param().empty()) error.Set("param", output.status.param());
    object.Set("error", error);
    return object;
  }
  const GenerationTimings& timings = output.timings;
  Napi::Object finish = Napi::Object::New(env);
  finish.Set("reason", Name(output.reason));
  finish.Set("inputTokens", output.usage.input_tokens);
  finish.Set("outputTokens", output.usage.output_tokens);
  finish.Set("cachedTokens", output.usage.cached_tokens);
  if (output.usage.truncated_tokens) {
    finish.Set("truncatedTokens", *output.usage.truncated_tokens);
  }
  finish.Set("startedMs", NumberOrNull(env, timings.started_ms, timings.started_ms >= 0));
  finish.Set("firstTokenMs",
             NumberOrNull(env, timings.first_token_ms, timings.first_token_ms >= 0));
  finish.Set("finishedMs", timings.finished_ms);
  object.Set("finish", finish);
  return object;
}

Napi::Object ToObject(Napi::Env env, const MemoryEstimates& estimates) {
  Napi::Array list = Napi::Array::New(env, estimates.estimates.size());
  for (std::uint32_t i = 0; i < estimates.estimates.size(); ++i) {
    list.Set(i, ToObject(env, estimates.estimates[i]));
  }
  Napi::Object object = Napi::Object::New(env);
  object.Set("trainedContextLength", estimates.trained_context_length);
  object.Set("layers", estimates.layers);
  object.Set("makesEmbeddings", estimates.makes_embeddings);
  object.Set("processBytes", CountOrNull(env, estimates.process_bytes));
  object.Set("estimates", list);
  return object;
}

Napi::Int32Array ToInt32Array(Napi::Env env, const std::vector<Token>& tokens) {
  auto array = Napi::Int32Array::New(env, tokens.size());
  std::copy(tokens.begin(), tokens.end(), array.Data());
  return array;
}

}  // namespace svc::binding
