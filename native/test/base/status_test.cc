// Errors: the spelling of their codes, those that exceptions become, and results that hold one.
#include "engine/base/status.h"

#include <array>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "test.h"

namespace svc {
namespace {

TEST(CodesAreSpelledAsInTheProtocol) {
  constexpr std::array<std::pair<StatusCode, const char*>, 10> kNames = {{
      {StatusCode::kOk, "OK"},
      {StatusCode::kInvalidRequest, "INVALID_REQUEST"},
      {StatusCode::kContextOverflow, "CONTEXT_OVERFLOW"},
      {StatusCode::kModelInvalid, "MODEL_INVALID"},
      {StatusCode::kOutOfMemory, "OUT_OF_MEMORY"},
      {StatusCode::kBusy, "BUSY"},
      {StatusCode::kCancelled, "CANCELLED"},
      {StatusCode::kEngineUnavailable, "ENGINE_UNAVAILABLE"},
      {StatusCode::kInternal, "INTERNAL"},
      {StatusCode::kConfigInvalid, "CONFIG_INVALID"},
  }};
  for (const auto& [code, name] : kNames) EXPECT_EQ(std::string(StatusCodeName(code)), name);
}

template <typename Error>
Status Caught(const Error& error) {
  try {
    throw error;
  } catch (...) {
    return CaughtStatus("no memory for it");
  }
}

TEST(ExceptionsBecomeErrors) {
  const Status internal = Caught(std::runtime_error("it broke"));
  EXPECT_EQ(internal.code(), StatusCode::kInternal);
  EXPECT_EQ(internal.message(), "it broke");
  for (const Status& none : {Caught(std::bad_alloc()), Caught(std::bad_array_new_length())}) {
    EXPECT_EQ(none.code(), StatusCode::kOutOfMemory);
    EXPECT_EQ(none.message(), "no memory for it");
  }
}

TEST(OnlyOkIsOk) {
  EXPECT(Status().ok());
  EXPECT(Status::Ok().ok());
  const Status busy(StatusCode::kBusy, "too many", "messages");
  EXPECT(!busy.ok());
  EXPECT_EQ(busy.code(), StatusCode::kBusy);
  EXPECT_EQ(busy.message(), "too many");
  EXPECT_EQ(busy.param(), "messages");
  EXPECT(Status(StatusCode::kBusy, "too many").param().empty());
}

TEST(AResultHoldsAValueOrTheError) {
  Result<std::unique_ptr<int>> value = std::make_unique<int>(7);
  REQUIRE(value.ok());
  EXPECT(value.status().ok());
  EXPECT_EQ(*value.value(), 7);
  const Result<std::unique_ptr<int>> error = Status(StatusCode::kCancelled, "stopped");
  EXPECT(!error.ok());
  EXPECT_EQ(error.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(error.status().message(), "stopped");
  // A value that looks like none is one.
  EXPECT(Result<bool>(false).ok());
  EXPECT(Result<std::unique_ptr<int>>(nullptr).ok());
}

}  // namespace
}  // namespace svc

TEST_MAIN()
