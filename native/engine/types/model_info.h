// What a loaded model is and can do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/field.h"
#include "engine/types/adapters.h"
#include "engine/types/sampling_params.h"

namespace svc {

struct ModelInfo {
  std::uint64_t size_bytes = 0;  // all tensors
  std::uint32_t trained_context_length = 0;
  std::uint32_t context_length = 0;    // longest context of a request, or longest input to embed
  std::uint32_t vocabulary = 0;        // tokens
  std::uint32_t embedding_length = 0;  // floats in a hidden state, or in an embedding
  std::uint32_t layers = 0;
  int threads = 0;
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

  // Without what only the engine uses: `size_bytes`, `threads` and `sampling`.
  SVC_FIELDS(ModelInfo, (trained_context_length), (context_length), (vocabulary),
             (embedding_length), (layers), (calls_tools), (thinks), (makes_embeddings), (ranks),
             (draft_refusal, .nullable = true), (sees), (hears),
             (projector_refusal, .nullable = true), (adapters), (device))
};

}  // namespace svc
