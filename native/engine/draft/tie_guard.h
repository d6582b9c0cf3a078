// Keeps greedy texts the same with and without drafts.
//
// What a row becomes may depend on the company it is computed in: kernels for one row add up in
// another order than those for several, and with a long context one row's attention is split among
// the threads. The logits then differ in their last digits, and where the two best are a tie within
// that error, another one wins.
//
// So a generation that takes the largest logit believes a row that was computed beside drafts, its
// own or another's, only where the best logit leads by a margin. Where it does not, the row is
// thrown away and computed once more in a step without drafts, as it would have been. That second
// computation also shows how large the error is: the margin is measured, for each number of rows
// and each magnitude of the cache by itself, since kernels are chosen by both. Until a few such
// rows have been seen the margin is a wary one; where they were equal to the last bit it is none.
//
// What this does not undo: the rows that were believed stay in the cache as they were rounded, and
// later ones attend to them, as they do to a prefix from the cache that was computed in company. So
// where rows differ at all, a tie may still end otherwise later; a text that has to be the same to
// the bit is asked for with a seed, and gets no drafts. Draws by chance need no guard, because they
// keep their distribution.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace svc {

// Owner and thread: the Loop.
class TieGuard {
 public:
  // By how much the best logit has to lead in a step of `rows` rows with `cells` cells in use.
  float Margin(std::size_t rows, std::uint32_t cells) const;
  // The lead of one row, computed in such a step and then alone.
  void Observe(std::size_t rows, std::uint32_t cells, float beside, float alone);

 private:
  static constexpr std::size_t kMostRows = 9;  // and above
  static constexpr std::size_t kMagnitudes = 33;

  struct Error {
    std::uint32_t seen = 0;
    float largest = 0;
  };
  static std::size_t IndexOf(std::size_t rows, std::uint32_t cells);

  std::array<Error, (kMostRows + 1) * kMagnitudes> errors_{};
};

}  // namespace svc
