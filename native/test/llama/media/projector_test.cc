// The computation of a picture between steps, and its end when its request is cancelled.
#include "engine/llama/media/projector.h"

#include <atomic>
#include <string>
#include <thread>
#include <utility>

#include "media_files.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

using Embeddings = Result<std::shared_ptr<const std::vector<float>>>;

// A projector whose parts have one operation.
struct Loaded {
  std::unique_ptr<LlamaModel> model = test::LoadTinyModel(test::ModelPath("tiny-llama"));
  std::shared_ptr<MediaTurns> turns = std::make_shared<MediaTurns>(/*decoding_ms=*/0.0);
  std::unique_ptr<Projector> projector = std::move(
      Projector::Load({.gpu_layers = 0, .projector_path = test::ModelPath("projectors/clip")},
                      *model, /*threads=*/1, /*max_rows=*/512, SipKey{1, 2}, turns)
          .value());
};

Media Picture(std::uint32_t kind) {
  return {.type = MediaType::kImage, .data = test::Base64(test::SomePng(100, 60, kind))};
}

PreparedMedia Prepared(const Loaded& loaded, std::uint32_t kind) {
  return std::move(loaded.projector->Prepare(Picture(kind)).value());
}

TEST(StepsBetweenOperationsChangeNothing) {
  const Loaded quiet;
  const Loaded busy;
  const PreparedMedia picture = Prepared(quiet, 1);
  const std::atomic<bool> abort = false;
  const Embeddings alone = quiet.projector->Encode(picture.pieces[0], abort);
  std::atomic<bool> ends = false;
  std::thread runner([&] {
    while (!ends) {
      const MediaTurns::Step step(busy.turns.get());
    }
  });
  const PreparedMedia same = Prepared(busy, 1);
  const Embeddings beside = busy.projector->Encode(same.pieces[0], abort);
  ends = true;
  runner.join();
  EXPECT(alone.ok() && beside.ok());
  EXPECT(*alone.value() == *beside.value());
}

TEST(AbortedBetweenOperations) {
  const Loaded loaded;
  const PreparedMedia picture = Prepared(loaded, 1);
  std::atomic<bool> abort = false;
  Status status;
  std::thread submitter;
  {
    const MediaTurns::Step step(loaded.turns.get());
    submitter =
        std::thread([&] { status = loaded.projector->Encode(picture.pieces[0], abort).status(); });
    while (!loaded.turns->has_media()) std::this_thread::yield();
    abort = true;
  }
  submitter.join();
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  // It is not kept, and can be computed later.
  EXPECT_EQ(loaded.projector->Encode(picture.pieces[0], abort).status().code(),
            StatusCode::kCancelled);
  abort = false;
  EXPECT(loaded.projector->Encode(picture.pieces[0], abort).ok());
}

}  // namespace
}  // namespace svc

TEST_MAIN()
