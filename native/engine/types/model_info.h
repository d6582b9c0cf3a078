// What a loaded model is and can do.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/field.h"
#include "engine/types/adapters.h"
#include "engine/types/sampling_params.h"

namespace svc {

struct ModelInfo {
  std::string description;   // "llama 1B Q4_0"
  std::string architecture;  // "llama"
  std::string quantization;  // "Q4_0"
  std::uint64_t parameters = 0;
  std::uint64_t size_bytes = 0;  // all tensors
  std::uint32_t trained_context_length = 0;
  std::uint32_t context_length = 0;    // longest context of a request, or longest input to embed
  std::uint32_t vocabulary = 0;        // tokens
  std::uint32_t embedding_length = 0;  // floats in a hidden state, or in an embedding
  std::uint32_t layers = 0;
  int threads = 0;
  bool has_chat_template = false;
  bool calls_tools = false;       // its template has a form for tool calls
  bool thinks = false;            // its template has a form for reasoning
  bool makes_embeddings = false;  // or scores (`ranks`); if so, it generates no text
  bool ranks = false;             // it scores documents, and makes no embeddings of its own
  // Sampling defaults for requests that set none: the file's `general.sampling.*`, else
  // llama.cpp's.
  SamplingParams sampling;
  // Reason why the requested draft model is not used, worded to follow "the draft model". Empty: it
  // is used, or none was requested.
  std::string draft_refusal;
  bool sees = false;   // its projector takes pictures
  bool hears = false;  // its projector takes sounds
  // Reason why the requested projector is not used, worded to follow "the projector". Empty: it is
  // used, or none was requested.
  std::string projector_refusal;
  std::vector<AdapterInfo> adapters;  // those of the load, in the same order
  std::string device;  // where the layers are: "CPU", or the names of the GPUs, with commas
  std::vector<std::pair<std::string, std::string>> metadata;  // scalar GGUF keys, as text

  // Without `sampling` and `metadata`.
  SVC_FIELDS(ModelInfo, (description), (architecture), (quantization), (parameters), (size_bytes),
             (trained_context_length), (context_length), (vocabulary), (embedding_length), (layers),
             (threads), (has_chat_template), (calls_tools), (thinks), (makes_embeddings), (ranks),
             (draft_refusal, .nullable = true), (sees), (hears),
             (projector_refusal, .nullable = true), (adapters), (device))
};

}  // namespace svc
