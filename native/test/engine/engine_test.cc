// What engines of all kinds have: tokens, and a life of their own.
#include "engine/engine.h"

#include <memory>
#include <string>
#include <vector>

#include "loaded_engine.h"
#include "models.h"
#include "test.h"

namespace svc {
namespace {

using test::LoadEngine;
using test::Request;
using test::Seeded;

TEST(TokensAreTurnedIntoTextAndPieces) {
  for (const char* name : {"tiny-qwen2", "tiny-bert", "tiny-rank"}) {
    const std::string path = test::ModelPath(name);
    const auto engine = test::Load({.path = path, .threads = 1}, [](auto) {});
    const auto model = test::LoadTinyModel(path);
    REQUIRE(engine != nullptr && model != nullptr);
    for (const bool add_special : {false, true}) {
      for (const bool parse_special : {false, true}) {
        const std::string text = "old bridges<|im_end|>[SEP]</s>";
        const std::vector<Token> tokens =
            engine->Tokenize(text, add_special, parse_special).value();
        EXPECT(tokens == model->Tokenize(text, add_special, parse_special).value());
        for (const bool special : {false, true}) {
          EXPECT_EQ(engine->Detokenize(tokens, special), model->Detokenize(tokens, special));
        }
        const std::vector<std::string> pieces = engine->Pieces(tokens);
        REQUIRE(pieces.size() == tokens.size());
        for (std::size_t i = 0; i < pieces.size(); ++i) {
          EXPECT_EQ(pieces[i], model->Piece(tokens[i], /*special=*/true));
        }
      }
    }
  }
}

TEST(APieceOfAControlTokenIsItsName) {
  const auto loaded = LoadEngine(test::TinyModels()[1], 256);
  REQUIRE(loaded != nullptr);
  const std::vector<Token> tokens = loaded->engine->Tokenize("<|im_end|>", false, true).value();
  EXPECT(loaded->engine->Pieces(tokens) == std::vector<std::string>{"<|im_end|>"});
  EXPECT_EQ(loaded->engine->Detokenize(tokens, false), "");
}

TEST(AnEngineMayBeDestroyedWhileItGenerates) {
  const auto loaded = LoadEngine(test::TinyModels()[2]);
  REQUIRE(loaded != nullptr);
  REQUIRE(loaded->engine->Submit(Request(1, "Once", Seeded(3), 1500)).ok());
  REQUIRE(loaded->listener.WaitForText(1));
  loaded->owner.reset();
  REQUIRE(loaded->listener.WaitFor(1));
}

TEST(TwoEnginesLiveSideBySide) {
  const auto one = LoadEngine(test::TinyModels()[0], 512);
  const auto two = LoadEngine(test::TinyModels()[1], 512);
  REQUIRE(one != nullptr && two != nullptr);
  REQUIRE(one->engine->Submit(Request(1, "Once", Seeded(3), 40)).ok());
  REQUIRE(two->engine->Submit(Request(1, "Once", Seeded(3), 40)).ok());
  EXPECT(one->listener.WaitFor(1));
  EXPECT(two->listener.WaitFor(1));
}

}  // namespace
}  // namespace svc

TEST_MAIN()
