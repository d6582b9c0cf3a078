// A grammar as a network over bytes, ready to be walked.
//
// Every rule is a part of the network with one node where it begins and one where it ends. An edge
// reads a byte, or jumps, or calls a rule and goes on behind the call when that has ended. Because
// edges read bytes and not characters, a token may end inside a character.
//
// Immutable once made; any thread.
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
    std::uint8_t low = 0;  // kByte: from this byte ...
    std::uint8_t high = 0;
    Node target = 0;             // kCall: where the rule begins
    Node after = 0;              // kCall: where it goes on
    std::uint32_t next = kNone;  // edge of the same node
  };

  // From GBNF. kInvalidRequest: it cannot be read, is left-recursive (it could be entered again
  // and again without a byte read), or is too large.
  static Result<std::shared_ptr<const Grammar>> Compile(std::string_view gbnf);

  Node start() const { return start_; }
  bool ends_rule(Node node) const { return nodes_[node].ends_rule; }
  // The end of a rule, which nothing follows, or a node that only jumps there.
  bool only_leaves_rule(Node node) const { return nodes_[node].only_leaves_rule; }
  // Calls `visit` with each edge of the node.
  template <typename Visit>
  void ForEachEdge(Node node, Visit visit) const {
    for (std::uint32_t i = nodes_[node].first_edge; i != kNone; i = edges_[i].next) {
      visit(edges_[i]);
    }
  }

  // Bytes that no edge tells apart have one class.
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
