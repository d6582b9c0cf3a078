// The pictures and sounds of one request: which are refused, what they become in a prompt, and the
// end of their computation.
#include "engine/llama/media/prompt_media.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "media_files.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

using test::ModelPath;

// A model with its projector, and what its requests share.
struct Loaded {
  Loaded(const std::string& name, const std::string& projector_name)
      : model(test::LoadTinyModel(ModelPath(name))),
        projector(std::move(
            Projector::Load({.gpu_layers = 0, .projector_path = ModelPath(projector_name)}, *model,
                            /*threads=*/1, /*max_rows=*/512, SipKey{1, 2}, turns)
                .value())) {
    info.sees = projector->sees();
    info.hears = projector->hears();
  }
  Loaded() : Loaded("tiny-llama", "projectors/clip") {}

  std::unique_ptr<LlamaModel> model;
  std::shared_ptr<MediaTurns> turns = std::make_shared<MediaTurns>(/*decoding_ms=*/0.0);
  std::unique_ptr<Projector> projector;
  ModelInfo info;
  MediaRequests requests;
};

Media Picture(std::uint32_t kind, std::uint32_t part = 0) {
  return {
      .type = MediaType::kImage, .data = test::Base64(test::SomePng(100, 60, kind)), .part = part};
}
Media Sound(std::uint32_t part = 0) {
  return {
      .type = MediaType::kAudio, .data = test::Base64(test::Wav(16'000, 8'000, 440)), .part = part};
}

ChatMessage Message(std::vector<Media> media) {
  return {.role = "user", .content = "", .media = std::move(media)};
}

// The prompt that the pictures of all messages make, with a token behind each.
std::vector<Token> PromptOf(const std::vector<ChatMessage>& messages) {
  std::vector<Token> prompt = {7};
  for (const ChatMessage& message : messages) {
    for (const Media& media : message.media) {
      prompt.insert(prompt.end(), media.tokens.begin(), media.tokens.end());
      prompt.push_back(8);
    }
  }
  return prompt;
}

TEST(RequestsAreCancelledByTheirIds) {
  Loaded loaded;
  const ModelInfo& info = loaded.info;
  MediaRequests& requests = loaded.requests;
  const auto encode = [&](PromptMedia* media, std::uint32_t kind) {
    std::vector<ChatMessage> messages = {{.role = "user", .content = "", .media = {Picture(kind)}}};
    EXPECT(media->Prepare(&messages).ok());
    std::vector<Token> prompt = messages[0].media[0].tokens;
    prompt.push_back(1);
    return media->Encode(prompt).status().code();
  };
  PromptMedia first(loaded.projector.get(), info, &requests, 1);
  PromptMedia second(loaded.projector.get(), info, &requests, 2);
  requests.Cancel(1);
  requests.Cancel(3);
  EXPECT_EQ(encode(&first, 1), StatusCode::kCancelled);
  EXPECT_EQ(encode(&second, 2), StatusCode::kOk);
  requests.Close();
  EXPECT_EQ(encode(&second, 3), StatusCode::kCancelled);
  PromptMedia late(loaded.projector.get(), info, &requests, 1);
  EXPECT_EQ(encode(&late, 4), StatusCode::kCancelled);
}

// ---- before it is computed ----------------------------------------------------------------------

TEST(WhatTheModelCannotTakeIsRefusedByItsPlace) {
  MediaRequests requests;
  ModelInfo info;
  const auto refusal = [&](const ModelInfo& of, const Media& media) {
    PromptMedia prompt(/*projector=*/nullptr, of, &requests, 1);
    std::vector<ChatMessage> messages = {Message({}), Message({media})};
    const Status status = prompt.Prepare(&messages);
    EXPECT_EQ(status.code(), StatusCode::kInvalidRequest);
    EXPECT_EQ(status.param(), "messages[1].content[5]");
    EXPECT(!messages[1].media[0].data.empty());
    return status.message();
  };
  EXPECT_EQ(refusal(info, Picture(1, 5)), "this model cannot see pictures");
  EXPECT_EQ(refusal(info, Sound(5)), "this model cannot hear sounds");
  info.projector_refusal = "is of another model";
  EXPECT_EQ(refusal(info, Picture(1, 5)),
            "this model cannot see pictures: its projector is of another model");
  // Messages without pictures need no projector.
  PromptMedia prompt(nullptr, info, &requests, 1);
  std::vector<ChatMessage> messages = {Message({}), Message({})};
  EXPECT(prompt.Prepare(&messages).ok());
  messages.clear();
  EXPECT(prompt.Prepare(&messages).ok());
  const auto encoded = prompt.Encode({1, 2, 3});
  EXPECT(encoded.ok() && encoded.value().empty());
}

TEST(AModelThatSeesNeedNotHear) {
  Loaded loaded;
  EXPECT(loaded.info.sees && !loaded.info.hears);
  PromptMedia prompt(loaded.projector.get(), loaded.info, &loaded.requests, 1);
  std::vector<ChatMessage> messages = {Message({Picture(1), Sound(3)})};
  const Status status = prompt.Prepare(&messages);
  EXPECT_EQ(status.message(), "this model cannot hear sounds");
  EXPECT_EQ(status.param(), "messages[0].content[3]");
}

TEST(WhatCannotBeDecodedIsNamedWithItsReason) {
  Loaded loaded;
  const auto refusal = [&](const std::string& data) {
    PromptMedia prompt(loaded.projector.get(), loaded.info, &loaded.requests, 1);
    std::vector<ChatMessage> messages = {
        Message({Picture(1, 0), {.type = MediaType::kImage, .data = data, .part = 2}})};
    const Status status = prompt.Prepare(&messages);
    EXPECT_EQ(status.code(), StatusCode::kInvalidRequest);
    EXPECT_EQ(status.param(), "messages[0].content[2]");
    return status.message();
  };
  EXPECT_EQ(refusal(test::Base64({'%', 'P', 'D', 'F'})), "the picture is not a PNG, JPEG or GIF");
  EXPECT(refusal("not base64!").starts_with("the picture "));
  EXPECT(refusal("").starts_with("the picture "));
}

TEST(PreparedPicturesHaveTokensInPlaceOfTheirBytes) {
  Loaded loaded;
  PromptMedia prompt(loaded.projector.get(), loaded.info, &loaded.requests, 1);
  std::vector<ChatMessage> messages = {Message({Picture(1), Picture(2)}), Message({Picture(1)})};
  REQUIRE(prompt.Prepare(&messages).ok());
  for (const ChatMessage& message : messages) {
    for (const Media& media : message.media) {
      EXPECT(media.data.empty());
      EXPECT(std::ranges::any_of(media.tokens, IsMediaToken));
    }
  }
  EXPECT(messages[0].media[0].tokens == messages[1].media[0].tokens);
  EXPECT(messages[0].media[0].tokens != messages[0].media[1].tokens);
}

// ---- its rows -----------------------------------------------------------------------------------

TEST(EachPictureHasItsRowsWhereItsTokensAre) {
  Loaded loaded;
  PromptMedia media(loaded.projector.get(), loaded.info, &loaded.requests, 1);
  std::vector<ChatMessage> messages = {Message({Picture(1), Picture(2)}), Message({Picture(1)})};
  REQUIRE(media.Prepare(&messages).ok());
  const std::vector<Token> prompt = PromptOf(messages);
  const auto encoded = media.Encode(prompt);
  REQUIRE(encoded.ok());
  const std::vector<MediaRows>& rows = encoded.value();
  REQUIRE(rows.size() == 3);
  std::size_t counted = 0;
  for (const MediaRows& run : rows) {
    EXPECT_EQ(run.width, loaded.projector->width());
    EXPECT_EQ(run.embeddings->size(), std::size_t{run.count} * run.width);
    for (std::uint32_t i = run.begin; i < run.end(); ++i) EXPECT(IsMediaToken(prompt[i]));
    EXPECT(!IsMediaToken(prompt[run.begin - 1]) && !IsMediaToken(prompt[run.end()]));
    EXPECT(!run.has_own_positions());
    counted += run.count;
  }
  EXPECT_EQ(counted, static_cast<std::size_t>(std::ranges::count_if(prompt, IsMediaToken)));
  EXPECT(*rows[0].embeddings == *rows[2].embeddings);
  EXPECT(*rows[0].embeddings != *rows[1].embeddings);
}

TEST(WhatWasCutFromThePromptIsNotComputed) {
  Loaded loaded;
  PromptMedia media(loaded.projector.get(), loaded.info, &loaded.requests, 1);
  std::vector<ChatMessage> messages = {Message({Picture(1)}), Message({Picture(2)})};
  REQUIRE(media.Prepare(&messages).ok());
  const auto encoded = media.Encode(PromptOf({messages[1]}));
  REQUIRE(encoded.ok());
  EXPECT_EQ(encoded.value().size(), 1U);
  const auto none = media.Encode({7, 8});
  EXPECT(none.ok() && none.value().empty());
  // Ids of rows that no picture of this request has.
  const auto unknown = media.Encode({7, kMostMediaToken, kMostMediaToken - 1, 8});
  EXPECT(unknown.ok() && unknown.value().empty());
}

TEST(TextMustFollowAPicture) {
  Loaded loaded;
  PromptMedia media(loaded.projector.get(), loaded.info, &loaded.requests, 1);
  std::vector<ChatMessage> messages = {Message({Picture(1)})};
  REQUIRE(media.Prepare(&messages).ok());
  std::vector<Token> prompt = PromptOf(messages);
  EXPECT(media.Encode(prompt).ok());
  while (!IsMediaToken(prompt.back())) prompt.pop_back();
  const Status status = media.Encode(prompt).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidRequest);
  EXPECT_EQ(status.param(), "messages");
}

// With M-RoPE the rows have places.
TEST(RowsOfAModelWithMRopeHavePlaces) {
  Loaded loaded("tiny-qwen2vl", "projectors/qwen2-vl");
  PromptMedia media(loaded.projector.get(), loaded.info, &loaded.requests, 1);
  std::vector<ChatMessage> messages = {Message({Picture(1)})};
  REQUIRE(media.Prepare(&messages).ok());
  const auto encoded = media.Encode(PromptOf(messages));
  REQUIRE(encoded.ok() && encoded.value().size() == 1);
  const MediaRows& rows = encoded.value()[0];
  EXPECT_EQ(rows.places.size(), rows.count);
  EXPECT(rows.positions > 0 && rows.positions < rows.count);
}

TEST(WithoutMediaOnlyTokensOfTheVocabularyAreLeft) {
  EXPECT((WithoutMedia({1, kMostMediaToken, 2, kMostMediaToken - 5, 3}) ==
          std::vector<Token>{1, 2, 3}));
  EXPECT((WithoutMedia({kMostMediaToken + 1, -1, 0}) ==
          std::vector<Token>{kMostMediaToken + 1, -1, 0}));
  EXPECT(WithoutMedia({}).empty());
}

}  // namespace
}  // namespace svc

TEST_MAIN()
