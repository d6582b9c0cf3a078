// A compiled grammar: a network (recursive transition network) over bytes.
//
// Each rule is a sub-network with one start and one end node. An edge reads a byte, jumps, or calls
// a rule and continues at `after` when that rule has ended. Because edges read bytes and not
// characters, a token may end inside a character.
//
// Immutable after Compile; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace svc {

class Grammar {
 public:
  using Node = std::uint32_t;
  static constexpr std::uint32_t kNone = UINT32_MAX;
  static constexpr std::size_t kMaxNodes = 1U << 18U;

  struct Edge {
    enum class Kind : std::uint8_t { kByte, kJump, kCall };
    Kind kind = Kind::kJump;
    std::uint8_t low = 0;  // kByte: reads low..high
    std::uint8_t high = 0;
    Node target = 0;             // kCall: start node of the rule
    Node after = 0;              // kCall: node to continue at
    std::uint32_t next = kNone;  // next edge of the same node
  };

  // Compiles GBNF. Error: kInvalidRequest (syntax error, left recursion, or too large).
  static Result<std::shared_ptr<const Grammar>> Compile(std::string_view gbnf);

  Node start() const { return start_; }
  bool ends_rule(Node node) const { return nodes_[node].ends_rule; }
  // True for the end node of a rule that has no further edges, and for nodes whose only edges jump
  // there.
  bool only_leaves_rule(Node node) const { return nodes_[node].only_leaves_rule; }
  // Calls `visit` with each edge of the node.
  template <typename Visit>
  void ForEachEdge(Node node, Visit visit) const {
    for (std::uint32_t i = nodes_[node].first_edge; i != kNone; i = edges_[i].next) {
      visit(edges_[i]);
    }
  }

  // Class of a byte. Bytes that no edge distinguishes are in one class.
  std::uint8_t byte_class(std::uint8_t byte) const { return byte_classes_[byte]; }
  std::size_t byte_class_count() const { return byte_class_count_; }

  std::size_t bytes() const {
    return nodes_.size() * sizeof(NodeData) + edges_.size() * sizeof(Edge);
  }

 private:
  friend class GrammarBuilder;
  struct NodeData {
    std::uint32_t first_edge = kNone;
    bool ends_rule = false;
    bool only_leaves_rule = false;
  };
  void FindByteClasses();
  void FindExits();

  std::vector<NodeData> nodes_;
  std::vector<Edge> edges_;
  Node start_ = 0;
  std::array<std::uint8_t, 256> byte_classes_{};
  std::size_t byte_class_count_ = 0;
};

}  // namespace svc
