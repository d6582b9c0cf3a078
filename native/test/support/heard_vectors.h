// Outputs of an engine that makes vectors or scores, collected for a test.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "models.h"
#include "test.h"

namespace svc::test {

// Thread: the engine's writes, the test's reads. Must outlive the engine.
struct HeardVectors {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<GenerationId, std::vector<float>> vectors;  // of each request, concatenated
  std::map<GenerationId, GenerationOutput> ends;

  OutputSink Sink() {
    return [this](std::vector<GenerationOutput> outputs) {
      const std::lock_guard lock(mutex);
      for (GenerationOutput& output : outputs) {
        auto& all = vectors[output.id];
        all.insert(all.end(), output.embeddings.begin(), output.embeddings.end());
        if (output.done) ends[output.id] = std::move(output);
      }
      changed.notify_all();
    };
  }
  // Waits for the end of the request.
  GenerationOutput End(GenerationId id) {
    std::unique_lock lock(mutex);
    EXPECT(changed.wait_for(lock, kPatience, [&] { return ends.contains(id); }));
    return ends[id];
  }
};

// Loads the model at `path` with one thread, and collects its outputs in `heard`.
inline Result<std::unique_ptr<Engine>> LoadInto(HeardVectors& heard, const std::string& path) {
  LoadModules();
  return Engine::Load({.path = path, .threads = 1}, heard.Sink());
}

}  // namespace svc::test
