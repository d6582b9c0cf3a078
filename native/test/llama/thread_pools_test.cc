// Pools of threads: one for each number, which stays the same.
#include "engine/llama/thread_pools.h"

#include <set>

#include "models.h"
#include "test.h"

namespace svc {
namespace {

TEST(EachNumberOfThreadsHasOnePool) {
  test::LoadModules();
  ThreadPools pools;
  ggml_threadpool* const one = pools.Get(1);
  ggml_threadpool* const two = pools.Get(2);
  ggml_threadpool* const three = pools.Get(3);
  REQUIRE(one != nullptr && two != nullptr && three != nullptr);
  EXPECT_EQ((std::set<ggml_threadpool*>{one, two, three}).size(), 3U);
  EXPECT(pools.Get(1) == one && pools.Get(2) == two && pools.Get(3) == three);
}

TEST(PoolsAreNotShared) {
  test::LoadModules();
  ThreadPools first;
  ThreadPools second;
  EXPECT(first.Get(2) != second.Get(2));
}

}  // namespace
}  // namespace svc

TEST_MAIN()
