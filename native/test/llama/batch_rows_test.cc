// The arrays of a llama_batch of tokens, and of embeddings with one position or with four.
#include "engine/llama/batch_rows.h"

#include <vector>

#include "test.h"

namespace svc {
namespace {

TEST(EachTokenIsARow) {
  BatchRows rows;
  EXPECT_EQ(rows.size(), 0U);
  rows.Add(7, 0, 3, false);
  rows.Add(8, 1, 4, true);
  EXPECT_EQ(rows.size(), 2U);
  const llama_batch batch = rows.Batch();
  EXPECT(batch.n_tokens == 2 && batch.embd == nullptr);
  EXPECT(batch.token[0] == 7 && batch.token[1] == 8);
  EXPECT(batch.pos[0] == 0 && batch.pos[1] == 1);
  EXPECT(batch.n_seq_id[0] == 1 && batch.n_seq_id[1] == 1);
  EXPECT(batch.seq_id[0][0] == 3 && batch.seq_id[1][0] == 4);
  EXPECT(batch.logits[0] == 0 && batch.logits[1] == 1);
}

// libllama has all positions of the first kind, then those of the second.
TEST(AnEmbeddingMayHaveFourPositions) {
  BatchRows rows;
  const std::vector<float> first = {1, 2};
  const std::vector<float> second = {3, 4};
  rows.AddEmbedding(first, std::vector<llama_pos>{10, 11, 12, 13}, 5);
  rows.AddEmbedding(second, std::vector<llama_pos>{20, 21, 22, 23}, 5);
  const llama_batch batch = rows.Batch();
  EXPECT(batch.n_tokens == 2 && batch.token == nullptr);
  EXPECT(std::vector<float>(batch.embd, batch.embd + 4) == (std::vector<float>{1, 2, 3, 4}));
  EXPECT(std::vector<llama_pos>(batch.pos, batch.pos + 8) ==
         (std::vector<llama_pos>{10, 20, 11, 21, 12, 22, 13, 23}));
  EXPECT(batch.seq_id[1][0] == 5 && batch.logits[0] == 0 && batch.logits[1] == 0);
}

TEST(AClearedBatchIsFilledAnew) {
  BatchRows rows;
  rows.AddEmbedding(std::vector<float>{1, 2}, std::vector<llama_pos>{1, 2, 3, 4}, 0);
  (void)rows.Batch();
  rows.Clear();
  EXPECT_EQ(rows.size(), 0U);
  rows.AddEmbedding(std::vector<float>{5, 6}, std::vector<llama_pos>{9}, 1);
  llama_batch batch = rows.Batch();
  EXPECT(batch.n_tokens == 1 && batch.embd[0] == 5 && batch.pos[0] == 9);
  rows.Clear();
  rows.Add(7, 2, 1, true);
  batch = rows.Batch();
  EXPECT(batch.n_tokens == 1 && batch.embd == nullptr && batch.token[0] == 7);
  EXPECT(batch.pos[0] == 2 && batch.seq_id[0][0] == 1 && batch.logits[0] == 1);
}

TEST(TokensAreCountedWithoutTheRowsOfPictures) {
  TokenRows rows;
  for (const bool is_token : {true, false, false, true, true}) rows.Add(is_token);
  EXPECT(rows.IndexOf(0) == 0 && rows.IndexOf(3) == 1 && rows.IndexOf(4) == 2);
  EXPECT(rows.IndexOf(1) < 0 && rows.IndexOf(2) < 0);
  rows.Clear();
  rows.Add(true);
  EXPECT_EQ(rows.IndexOf(0), 0);
}

}  // namespace
}  // namespace svc

TEST_MAIN()
