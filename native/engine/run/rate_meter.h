// Tokens per second over the last few seconds of work. Time in which nothing ran does not count.
#pragma once

#include <cstdint>
#include <deque>

namespace svc {

// Not thread-safe.
class RateMeter {
 public:
  void Add(double seconds, std::uint32_t tokens) {
    steps_.push_back({seconds, tokens});
    seconds_ += seconds;
    tokens_ += tokens;
    while (seconds_ - steps_.front().seconds > kWindowSeconds) {
      seconds_ -= steps_.front().seconds;
      tokens_ -= steps_.front().tokens;
      steps_.pop_front();
    }
  }

  void Clear() { *this = RateMeter(); }

  double per_second() const { return seconds_ > 0 ? static_cast<double>(tokens_) / seconds_ : 0; }

 private:
  static constexpr double kWindowSeconds = 3;

  struct Step {
    double seconds;
    std::uint32_t tokens;
  };
  std::deque<Step> steps_;
  double seconds_ = 0;
  std::uint64_t tokens_ = 0;
};

}  // namespace svc
