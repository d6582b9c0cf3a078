// The parts of a loop over a fake decoder, without the loop, for tests of one of them.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "bench.h"
#include "engine/run/admission.h"

namespace svc::test {

// Returns the cost model measured where a step of so many rows takes `ms(rows)`.
CostModel CostOf(const std::function<double(std::size_t rows)>& ms);

struct LoopParts {
  explicit LoopParts(FakeOptions options = {}, const CostModel& cost = {});

  Generation& Add(const Want& want);
  // Computes the next `rows` tokens of a generation in the cache.
  void Compute(Generation& generation, std::uint32_t rows);
  void Pass(double ms) { time += std::chrono::microseconds(static_cast<std::int64_t>(ms * 1000)); }

  Clock::time_point time;
  const Now now = [this] { return time; };
  FakeRecord record;
  FakeDecoder decoder;
  StepCosts costs;
  FairShares shares{&decoder};
  Prefiller prefiller{&decoder, &costs};
  Generations generations;
  EngineStats counts;
  Admission admission{{.decoder = &decoder,
                       .generations = &generations,
                       .shares = &shares,
                       .prefiller = &prefiller,
                       .costs = &costs,
                       .counts = &counts,
                       .now = now,
                       .on_leave = [](const Generation&) {}},
                      nullptr};
};

}  // namespace svc::test
