// Pictures and sounds in prompts of a whole engine: the texts equal those of a plain loop over
// libmtmd and libllama, alone and beside others, computed and from the prefix cache.
#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/llama/media/picture.h"
#include "engine/llama/media/sound.h"
#include "folder.h"
#include "ignore_leaks.h"
#include "loaded_engine.h"
#include "media_files.h"
#include "mtmd.h"
#include "test.h"
#include "ties.h"

namespace svc {
namespace {

using test::Base64;
using test::Bytes;
using test::Greedy;
using test::Loaded;
using test::ModelPath;
using test::Seeded;
using test::SomePng;
using test::Wav;

constexpr std::uint32_t kContext = 2048;
constexpr std::uint32_t kTokens = 24;

struct Kind {
  const char* model;
  const char* projector;
  MediaType type;
};
// CLIP-like, SigLIP-like with rows that see one another, Qwen-VL-like, Whisper-like.
constexpr std::array<Kind, 4> kKinds = {{{"tiny-llama", "clip", MediaType::kImage},
                                         {"tiny-gemma3", "siglip", MediaType::kImage},
                                         {"tiny-qwen2vl", "qwen2-vl", MediaType::kImage},
                                         {"tiny-llama", "whisper", MediaType::kAudio}}};

std::string ProjectorPath(const char* name) { return ModelPath(std::string("projectors/") + name); }

// `prefixes`: folder of the disk tier; empty: there is none.
std::unique_ptr<Loaded> LoadKind(const Kind& kind, const std::filesystem::path& prefixes = {}) {
  auto loaded = std::make_unique<Loaded>();
  LoadOptions options{.path = ModelPath(kind.model),
                      .context_length = kContext,
                      .threads = 1,
                      .projector_path = ProjectorPath(kind.projector)};
  options.prefix_folder = prefixes;
  options.prefix_model = "model";
  options.prefix_bytes = 1U << 30U;
  options.prefix_key = {1, 2};
  loaded->owner = test::Load(options, loaded->listener.Sink());
  if (loaded->owner == nullptr) return nullptr;
  loaded->engine = loaded->owner->text();
  return loaded;
}

// The picture that is one line of rows with M-RoPE.
constexpr std::uint32_t kWide = 9;

// The `number`th picture or sound of a kind.
Bytes FileOf(MediaType type, std::uint32_t number) {
  if (type == MediaType::kImage && number == kWide) return SomePng(1200, 24, number);
  if (type == MediaType::kImage) return SomePng(100 + 40 * number, 60 + 90 * number, number);
  return Wav(16000, 8000 + 4000 * number, 200.0 * (number + 1));
}

struct Question {
  std::string text;                                         // of the user's message
  std::vector<std::pair<std::uint32_t, Bytes>> media = {};  // where it stands, and the file
};

GenerationRequest RequestOf(GenerationId id, const Kind& kind, const Question& question,
                            SamplingParams sampling) {
  GenerationRequest request;
  request.id = id;
  ChatMessage message{.role = "user", .content = question.text};
  for (const auto& [at, file] : question.media) {
    message.media.push_back({.type = kind.type, .data = Base64(file), .at = at});
  }
  request.messages = {std::move(message)};
  request.sampling = std::move(sampling);
  request.max_tokens = kTokens;
  return request;
}

std::string Answer(Loaded& loaded, GenerationRequest request) {
  const GenerationId id = request.id;
  const Result<std::uint32_t> submitted = loaded.engine->Submit(std::move(request));
  EXPECT_EQ(submitted.status().message(), "");
  if (!submitted.ok() || !loaded.listener.WaitFor(id)) return "";
  EXPECT_EQ(loaded.listener.End(id).status.message(), "");
  return loaded.listener.Text(id);
}

// ---- the plain loop -----------------------------------------------------------------------------

class PlainLoop {
 public:
  explicit PlainLoop(const Kind& kind)
      : kind_(kind), model_(test::LoadTinyModel(ModelPath(kind.model))) {
    mtmd_context_params params = mtmd_context_params_default();
    params.use_gpu = false;
    params.n_threads = 1;
    params.print_timings = false;
    mtmd_.reset(mtmd_init_from_file(ProjectorPath(kind.projector).c_str(), model_->get(), params));
  }

  // `prompt` has libmtmd's marker for each file.
  std::string Run(const std::string& prompt, const std::vector<Bytes>& files) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = kContext;
    params.n_batch = params.n_ubatch = 512;
    params.n_threads = params.n_threads_batch = 1;
    context_ = llama_init_from_model(model_->get(), params);
    next_ = 0;
    std::vector<mtmd::bitmap> bitmaps;
    std::vector<const mtmd_bitmap*> pointers;
    for (const Bytes& file : files) {
      bitmaps.emplace_back(BitmapOf(file));
      pointers.push_back(bitmaps.back().ptr.get());
    }
    const mtmd_input_text text = {prompt.data(), prompt.size(), true, true};
    const mtmd::input_chunks chunks(mtmd_input_chunks_init());
    EXPECT_EQ(mtmd_tokenize(mtmd_.get(), chunks.ptr.get(), &text, pointers.data(), pointers.size()),
              0);
    for (std::size_t i = 0; i < chunks.size(); ++i) Decode(chunks[i]);
    std::string answer = Sample();
    llama_free(context_);
    return answer;
  }

 private:
  mtmd_bitmap* BitmapOf(const Bytes& file) {
    if (kind_.type == MediaType::kImage) {
      const Picture picture = DecodePicture(file).value();
      return mtmd_bitmap_init(picture.width, picture.height, picture.pixels.data());
    }
    const std::vector<float> sound = DecodeSound(file, 16000).value();
    return mtmd_bitmap_init_from_audio(sound.size(), sound.data());
  }

  void Decode(const mtmd_input_chunk* chunk) {
    std::size_t count = 0;
    if (const llama_token* tokens = mtmd_input_chunk_get_tokens_text(chunk, &count)) {
      for (std::size_t i = 0; i < count; ++i) DecodeToken(tokens[i]);
      return;
    }
    EXPECT_EQ(mtmd_encode_chunk(mtmd_.get(), chunk), 0);
    const auto rows = static_cast<std::int32_t>(mtmd_input_chunk_get_n_tokens(chunk));
    const bool has_places = mtmd_decode_use_mrope(mtmd_.get());
    std::vector<llama_pos> positions;
    for (int dimension = 0; dimension < (has_places ? 4 : 1); ++dimension) {
      for (std::int32_t row = 0; row < rows; ++row) {
        positions.push_back(has_places ? PlaceOf(chunk, row)[dimension] : next_ + row);
      }
    }
    std::vector<std::int32_t> one(rows, 1);
    llama_seq_id sequence = 0;
    std::vector<llama_seq_id*> sequences(rows, &sequence);
    std::vector<std::int8_t> wants(rows, 0);
    const llama_batch batch = {.n_tokens = rows,
                               .token = nullptr,
                               .embd = mtmd_get_output_embd(mtmd_.get()),
                               .pos = positions.data(),
                               .n_seq_id = one.data(),
                               .seq_id = sequences.data(),
                               .logits = wants.data()};
    const bool sees_all = mtmd_decode_use_non_causal(mtmd_.get(), chunk);
    if (sees_all) llama_set_causal_attn(context_, false);
    EXPECT_EQ(llama_decode(context_, batch), 0);
    if (sees_all) llama_set_causal_attn(context_, true);
    next_ += mtmd_input_chunk_get_n_pos(chunk);
  }

  std::array<llama_pos, 4> PlaceOf(const mtmd_input_chunk* chunk, std::int32_t row) const {
    const mtmd_decoder_pos place = mtmd_image_tokens_get_decoder_pos(
        mtmd_input_chunk_get_tokens_image(chunk), next_, static_cast<std::size_t>(row));
    return {static_cast<llama_pos>(place.t), static_cast<llama_pos>(place.y),
            static_cast<llama_pos>(place.x), static_cast<llama_pos>(place.z)};
  }

  void DecodeToken(llama_token token) {
    llama_seq_id sequence = 0;
    llama_seq_id* pointer = &sequence;
    std::int32_t one = 1;
    std::int8_t wants = 1;
    llama_pos position = next_++;
    EXPECT_EQ(llama_decode(context_, {1, &token, nullptr, &position, &one, &pointer, &wants}), 0);
  }

  std::string Sample() {
    std::string text;
    for (std::uint32_t i = 0; i < kTokens; ++i) {
      const float* logits = llama_get_logits_ith(context_, -1);
      const auto best = std::max_element(logits, logits + llama_vocab_n_tokens(model_->vocab()));
      const auto token = static_cast<llama_token>(best - logits);
      if (llama_vocab_is_eog(model_->vocab(), token)) break;
      text += model_->Piece(token, false);
      if (i + 1 < kTokens) DecodeToken(token);
    }
    return text;
  }

  const Kind kind_;
  std::unique_ptr<LlamaModel> model_;
  mtmd::context_ptr mtmd_;
  llama_context* context_ = nullptr;
  llama_pos next_ = 0;
};

// The prompt of a question as libmtmd takes it.
std::string MarkedPrompt(Loaded& loaded, const Question& question) {
  std::string text = question.text;
  for (auto each = question.media.rbegin(); each != question.media.rend(); ++each) {
    text.insert(each->first, mtmd_default_marker());
  }
  GenerationRequest request;
  request.messages = {{.role = "user", .content = text}};
  return loaded.engine->Render(request).value().prompt;
}

// ---- tests --------------------------------------------------------------------------------------

// A text may end within a character, which the engine leaves out.
bool Agree(const std::string& answer, const std::string& plain) {
  return !answer.empty() && plain.starts_with(answer.substr(0, answer.find("\xEF\xBF\xBD"))) &&
         answer.size() + 4 > plain.size();
}

TEST(TextsEqualThoseOfAPlainLoop) {
  for (const Kind& kind : kKinds) {
    const auto loaded = LoadKind(kind);
    if (loaded == nullptr) return;
    EXPECT_EQ(loaded->engine->info().projector_refusal, "");
    PlainLoop plain(kind);
    const std::vector<Question> questions = {
        {"What is this?", {{0, FileOf(kind.type, 0)}}},
        {"Before and behind", {{7, FileOf(kind.type, 1)}}},
        {"Two of them", {{0, FileOf(kind.type, 1)}, {4, FileOf(kind.type, 2)}}},
        {"A wide one", {{2, FileOf(kind.type, kWide)}}},
    };
    GenerationId id = 1;
    for (const Question& question : questions) {
      std::vector<Bytes> files;
      for (const auto& [at, file] : question.media) files.push_back(file);
      const std::string expected = plain.Run(MarkedPrompt(*loaded, question), files);
      SamplingParams seeded = Seeded(1);
      seeded.temperature = 0;
      const std::string alone = Answer(*loaded, RequestOf(id++, kind, question, seeded));
      EXPECT(Agree(alone, expected));
      if (!Agree(alone, expected)) {
        test::Fail(__FILE__, __LINE__,
                   std::string(kind.projector) + ": " + alone + " | " + expected);
      }
    }
  }
}

TEST(ThePrefixCacheKnowsPicturesByTheirBytes) {
  const Kind& kind = kKinds[0];
  const auto loaded = LoadKind(kind);
  if (loaded == nullptr) return;
  const Question red = {"What is this?", {{0, FileOf(kind.type, 0)}}};
  const Question other = {"What is this?", {{0, FileOf(kind.type, 1)}}};
  const std::string first = Answer(*loaded, RequestOf(1, kind, red, Greedy()));
  const std::string second = Answer(*loaded, RequestOf(2, kind, other, Greedy()));
  EXPECT(first != second);
  EXPECT_EQ(Answer(*loaded, RequestOf(3, kind, red, Greedy())), first);
  const GenerationUsage again = loaded->listener.End(3).usage;
  EXPECT_EQ(again.cached_tokens, again.input_tokens - 1);
  EXPECT_EQ(Answer(*loaded, RequestOf(4, kind, other, Greedy())), second);
}

// A conversation of two turns with a picture or sound in each.
struct Talk {
  GenerationRequest first;
  GenerationRequest second;
};

Talk TalkOf(GenerationId id, const Kind& kind, const std::string& answer) {
  Talk talk = {
      .first = RequestOf(id, kind, {"What is this?", {{0, FileOf(kind.type, 1)}}}, Greedy()),
      .second = RequestOf(
          id + 1, kind,
          {"And this one?", {{4, FileOf(kind.type, 2)}, {9, FileOf(kind.type, kWide)}}}, Greedy())};
  talk.second.messages.insert(talk.second.messages.begin(),
                              {talk.first.messages[0], {.role = "assistant", .content = answer}});
  talk.first.logprobs = talk.second.logprobs = 2;
  return talk;
}

// Also with M-RoPE, where the rows of a picture have one position.
TEST(ConversationsWithPicturesAreKept) {
  for (const Kind& kind : {kKinds[0], kKinds[2], kKinds[3]}) {
    const test::Folder folder;
    const auto loaded = LoadKind(kind, folder.path());
    if (loaded == nullptr) return;
    const std::string answer = Answer(*loaded, TalkOf(100, kind, "").first);
    const std::uint32_t first_tokens = loaded->listener.End(100).usage.input_tokens;
    std::vector<TokenLogprobs> cold;
    {
      const auto other = LoadKind(kind);
      if (other == nullptr) return;
      Answer(*other, TalkOf(1, kind, answer).second);
      EXPECT_EQ(other->listener.End(2).usage.cached_tokens, 0U);
      cold = other->listener.Logprobs(2);
    }
    // Asks both turns, and returns how many tokens of the second were computed.
    const auto turns = [&](GenerationId id) {
      const Talk talk = TalkOf(id, kind, answer);
      Answer(*loaded, talk.first);
      Answer(*loaded, talk.second);
      EXPECT(test::SameButForTies(cold, loaded->listener.Logprobs(id + 1)));
      const GenerationUsage usage = loaded->listener.End(id + 1).usage;
      return usage.input_tokens - usage.cached_tokens;
    };
    const std::uint32_t computed = turns(1);
    // The answer's text may be other tokens than it was.
    EXPECT(computed <= loaded->listener.End(2).usage.input_tokens - first_tokens);
    EXPECT_EQ(turns(3), 1U);
    // Other prompts take cells; then copies come back. Not more prompts than that: the conversation
    // may not be on the disk yet.
    const auto swapped = [&] { return loaded->engine->stats().kv_tokens_swapped; };
    for (GenerationId id = 10; id < 16 && swapped() == 0; ++id) {
      std::string words;
      for (int i = 0; i < 60; ++i) words += " " + std::to_string(id * 1000 + i);
      Answer(*loaded, RequestOf(id, kind, {words}, Greedy()));
    }
    EXPECT(swapped() > 0);
    EXPECT_EQ(turns(5), 1U);
    // After a restart.
    loaded->engine->Close();
    const auto again = LoadKind(kind, folder.path());
    if (again == nullptr) return;
    Answer(*again, TalkOf(7, kind, answer).second);
    EXPECT(test::SameButForTies(cold, again->listener.Logprobs(8)));
    const GenerationUsage restarted = again->listener.End(8).usage;
    EXPECT(restarted.cached_tokens + computed > restarted.input_tokens);
  }
}

TEST(BesideOthersTextsAreTheSameButForTies) {
  for (const Kind& kind : kKinds) {
    const auto loaded = LoadKind(kind);
    if (loaded == nullptr) return;
    std::vector<std::vector<TokenLogprobs>> alone;
    const auto request = [&](GenerationId id) {
      const std::uint32_t number = id % 3;
      Question question{"Tell me about number " + std::to_string(number)};
      if (number > 0) question.media = {{0, FileOf(kind.type, number)}};
      GenerationRequest each = RequestOf(id, kind, question, Greedy());
      each.logprobs = 2;
      return each;
    };
    for (GenerationId id = 0; id < 3; ++id) {
      Answer(*loaded, request(id));
      alone.push_back(loaded->listener.Logprobs(id));
    }
    for (GenerationId id = 3; id < 12; ++id) {
      EXPECT(loaded->engine->Submit(request(id)).ok());
    }
    for (GenerationId id = 3; id < 12; ++id) {
      EXPECT(loaded->listener.WaitFor(id));
      EXPECT_EQ(loaded->listener.End(id).status.message(), "");
      EXPECT(test::SameButForTies(alone[id % 3], loaded->listener.Logprobs(id)));
    }
  }
}

TEST(WhatIsRefused) {
  const auto loaded = LoadKind(kKinds[0]);
  if (loaded == nullptr) return;
  const auto refusal = [&](const Bytes& file, MediaType type) {
    GenerationRequest request = RequestOf(1, kKinds[0], {"Look"}, Greedy());
    request.messages[0].media = {{.type = type, .data = Base64(file), .at = 0, .part = 2}};
    return loaded->engine->Submit(std::move(request)).status();
  };
  const Status cut = refusal({0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n', 0}, MediaType::kImage);
  EXPECT_EQ(cut.param(), "messages[0].content[2]");
  EXPECT_EQ(cut.message(), "the picture is damaged or cut off");
  const Status deaf = refusal(Wav(16000, 100, 440), MediaType::kAudio);
  EXPECT_EQ(deaf.message(), "this model cannot hear sounds");
  // A picture without text behind it can only be in a raw prompt; in a chat the template adds some.
  EXPECT(Answer(*loaded, RequestOf(2, kKinds[0], {"Look"}, Greedy())) != "");
}

TEST(AProjectorOfAnotherModel) {
  const test::IgnoreLeaks
      leaks;  // mtmd_init_from_file frees nothing of a projector that it refuses
  const auto loaded = LoadKind({"tiny-gemma3", "clip", MediaType::kImage});
  if (loaded == nullptr) return;
  const ModelInfo& info = loaded->engine->info();
  EXPECT(!info.sees);
  EXPECT(info.projector_refusal.find("mismatch") != std::string::npos);
  const Question question = {"Look", {{0, FileOf(MediaType::kImage, 0)}}};
  const Result<std::uint32_t> refused =
      loaded->engine->Submit(RequestOf(1, kKinds[0], question, Greedy()));
  EXPECT(refused.status().message().find("its projector cannot be used") != std::string::npos);
  EXPECT(Answer(*loaded, RequestOf(2, kKinds[0], {"Hello"}, Greedy())) != "");
}

}  // namespace
}  // namespace svc

TEST_MAIN()
