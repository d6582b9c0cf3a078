#include "loop_bench.h"

#include <set>

#include "test.h"

namespace svc::test {

bool LoopBench::Step() {
  const bool planned = loop->Plan();
  if (planned) loop->Compute(abort);
  bool granted = false;
  std::set<GenerationId> heard;
  for (GenerationOutput& output : loop->TakeOutputs()) {
    EXPECT(heard.insert(output.id).second);
    texts[output.id] += output.text;
    if (output.cells) {
      loop->GrantCells(output.cells->wanted, "");
      granted = true;
    }
    if (output.done) ends.emplace(output.id, std::move(output));
  }
  const EngineStats stats = loop->stats();
  EXPECT_EQ(stats.kv_cells_used + stats.kv_cells_cached, record.cells.load());
  return planned || granted;
}

double LoopBench::RunToTheEnd() {
  const Clock::time_point start = time_;
  while (Step()) {
  }
  EXPECT_EQ(loop->stats().kv_cells_used, 0U);
  return Milliseconds(time_ - start);
}

Now LoopBench::now() {
  return [this] { return time_; };
}

}  // namespace svc::test
