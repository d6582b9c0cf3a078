#include "engine/grammar/grammar.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "engine/grammar/gbnf.h"

namespace svc {

class GrammarBuilder {
 public:
  using Node = Grammar::Node;
  using Edge = Grammar::Edge;

  Result<std::shared_ptr<const Grammar>> Build(const Gbnf& gbnf) {
    for (std::size_t i = 0; i < gbnf.rules.size(); ++i) rules_.push_back(AddRule());
    for (std::size_t i = 0; i < gbnf.rules.size() && !too_large(); ++i) {
      Join(Append(gbnf.rules[i], rules_[i].start), rules_[i].end);
    }
    if (too_large()) {
      return Status(StatusCode::kInvalidRequest, "the grammar is too large: more than " +
                                                     std::to_string(Grammar::kMaxNodes) +
                                                     " nodes after its repetitions are expanded");
    }
    grammar_->start_ = rules_[gbnf.root].start;
    if (IsLeftRecursive()) {
      return Status(StatusCode::kInvalidRequest,
                    "the grammar has a rule that begins with itself (left recursion)");
    }
    grammar_->FindByteClasses();
    grammar_->FindExits();
    return std::shared_ptr<const Grammar>(std::move(grammar_));
  }

 private:
  struct Rule {
    Node start = 0;
    Node end = 0;
  };

  bool too_large() const { return grammar_->nodes_.size() > Grammar::kMaxNodes; }

  Node AddNode() {
    grammar_->nodes_.emplace_back();
    return static_cast<Node>(grammar_->nodes_.size() - 1);
  }
  void AddEdge(Node from, Edge edge) {
    edge.next = std::exchange(grammar_->nodes_[from].first_edge,
                              static_cast<std::uint32_t>(grammar_->edges_.size()));
    grammar_->edges_.push_back(edge);
  }
  void Join(Node from, Node to) { AddEdge(from, {.kind = Edge::Kind::kJump, .target = to}); }
  void Read(Node from, std::uint8_t low, std::uint8_t high, Node to) {
    AddEdge(from, {.kind = Edge::Kind::kByte, .low = low, .high = high, .target = to});
  }
  Rule AddRule() {
    const Rule rule{.start = AddNode(), .end = AddNode()};
    grammar_->nodes_[rule.end].ends_rule = true;
    return rule;
  }
  Node Call(Node from, const Rule& rule) {
    const Node after = AddNode();
    AddEdge(from, {.kind = Edge::Kind::kCall, .target = rule.start, .after = after});
    return after;
  }

  // Appends the expression after node `from` and returns its end node. Stops once the grammar is
  // too large: nested repetitions multiply.
  Node Append(const GbnfExpression& expression, Node from) {
    if (too_large()) return from;
    switch (expression.kind) {
      case GbnfExpression::Kind::kSequence:
        for (const GbnfExpression& part : expression.parts) from = Append(part, from);
        return from;
      case GbnfExpression::Kind::kAlternatives: {
        const Node end = AddNode();
        for (const GbnfExpression& part : expression.parts) {
          const Node begin = AddNode();
          Join(from, begin);
          Join(Append(part, begin), end);
        }
        return end;
      }
      case GbnfExpression::Kind::kText:
        for (const char c : expression.text) {
          const Node to = AddNode();
          Read(from, static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c), to);
          from = to;
        }
        return from;
      case GbnfExpression::Kind::kClass:
        return AppendClass(expression.ranges, from);
      case GbnfExpression::Kind::kRule:
        return Call(from, rules_[expression.rule]);
      case GbnfExpression::Kind::kRepeat:
        return AppendRepeat(expression, from);
    }
    return from;
  }

  Node AppendRepeat(const GbnfExpression& repeat, Node from) {
    const GbnfExpression& part = repeat.parts.front();
    for (std::uint32_t i = 0; i < repeat.min && !too_large(); ++i) from = Append(part, from);
    const Node end = AddNode();
    if (repeat.max == GbnfExpression::kUnbounded) {
      const Node loop = AddNode();
      Join(from, loop);
      Join(Append(part, loop), loop);
      Join(loop, end);
      return end;
    }
    for (std::uint32_t i = repeat.min; i < repeat.max && !too_large(); ++i) {
      Join(from, end);
      from = Append(part, from);
    }
    Join(from, end);
    return end;
  }

  // Characters below 0x80 are byte edges. All others of the class become one rule per distinct set
  // of ranges, so that a class that is repeated a thousand times is stored once.
  Node AppendClass(const std::vector<CharRange>& ranges, Node from) {
    const Node to = AddNode();
    std::vector<std::pair<std::uint32_t, std::uint32_t>> longer;
    for (const CharRange& range : ranges) {
      if (range.first < 0x80) {
        Read(from, static_cast<std::uint8_t>(range.first),
             static_cast<std::uint8_t>(std::min<std::uint32_t>(range.last, 0x7F)), to);
      }
      if (range.last >= 0x80)
        longer.emplace_back(std::max<std::uint32_t>(range.first, 0x80), range.last);
    }
    if (longer.empty()) return to;
    const auto [found, added] = classes_.try_emplace(longer);
    if (added) {
      found->second = AddRule();
      for (const auto& [first, last] : longer) AppendRange(first, last, found->second);
    }
    AddEdge(from, {.kind = Edge::Kind::kCall, .target = found->second.start, .after = to});
    return to;
  }

  // Adds the characters first..last, without surrogates, as sequences of byte ranges. The range is
  // split until, in each piece, all bytes after the first differing one cover 80..BF.
  void AppendRange(std::uint32_t first, std::uint32_t last, const Rule& rule) {
    for (const std::uint32_t border : {0x7FFU, 0xD7FFU, 0xDFFFU, 0xFFFFU}) {
      if (first <= border && border < last) {
        AppendRange(first, border, rule);
        AppendRange(border + 1, last, rule);
        return;
      }
    }
    if (first >= 0xD800 && first <= 0xDFFF) return;
    const std::string low = Utf8Of(first);
    for (std::size_t i = 1; i < low.size(); ++i) {
      const std::uint32_t mask = (1U << (6 * i)) - 1;
      if ((first & ~mask) == (last & ~mask)) continue;
      if ((first & mask) != 0) {
        AppendRange(first, first | mask, rule);
        AppendRange((first | mask) + 1, last, rule);
        return;
      }
      if ((last & mask) != mask) {
        AppendRange(first, (last & ~mask) - 1, rule);
        AppendRange(last & ~mask, last, rule);
        return;
      }
    }
    const std::string high = Utf8Of(last);
    Node from = rule.start;
    for (std::size_t i = 0; i < low.size(); ++i) {
      const Node to = i + 1 < low.size() ? AddNode() : rule.end;
      Read(from, static_cast<std::uint8_t>(low[i]), static_cast<std::uint8_t>(high[i]), to);
      from = to;
    }
  }

  // True if a rule can be entered from itself without reading a byte. Walks from every rule's start
  // along edges that read nothing. The node after a call is reached only if the called rule may be
  // empty, which may turn out later (`waiting`).
  bool IsLeftRecursive() const {
    const Grammar& grammar = *grammar_;
    struct RuleFacts {
      bool may_be_empty = false;
      std::vector<std::pair<Node, std::uint32_t>> waiting;  // node after a call, and its rule
      std::vector<std::uint32_t> enters;
    };
    std::vector<RuleFacts> facts(rules_.size());
    std::map<Node, std::uint32_t> rule_at;  // by start node
    std::vector<bool> reached(grammar.nodes_.size());
    std::vector<std::pair<Node, std::uint32_t>> todo;
    const auto reach = [&](Node node, std::uint32_t rule) {
      if (reached[node]) return;
      reached[node] = true;
      todo.emplace_back(node, rule);
    };
    for (std::uint32_t i = 0; i < rules_.size(); ++i) {
      rule_at[rules_[i].start] = i;
      reach(rules_[i].start, i);
    }
    while (!todo.empty()) {
      const auto [node, rule] = todo.back();
      todo.pop_back();
      if (grammar.ends_rule(node) && !std::exchange(facts[rule].may_be_empty, true)) {
        for (const auto& [after, caller] : std::exchange(facts[rule].waiting, {})) {
          reach(after, caller);
        }
      }
      grammar.ForEachEdge(node, [&, rule = rule](const Edge& edge) {
        if (edge.kind == Edge::Kind::kJump) reach(edge.target, rule);
        if (edge.kind != Edge::Kind::kCall) return;
        const auto called = rule_at.find(edge.target);
        if (called == rule_at.end()) return;  // a class: never empty, calls nothing
        facts[rule].enters.push_back(called->second);
        if (facts[called->second].may_be_empty) {
          reach(edge.after, rule);
        } else {
          facts[called->second].waiting.emplace_back(edge.after, rule);
        }
      });
    }
    // Topological sort: if rules remain after repeatedly removing rules that no other rule enters,
    // there is a cycle.
    std::vector<std::uint32_t> entered(rules_.size());
    for (const RuleFacts& rule : facts) {
      for (const std::uint32_t callee : rule.enters) ++entered[callee];
    }
    std::vector<std::uint32_t> free;
    for (std::uint32_t i = 0; i < rules_.size(); ++i) {
      if (entered[i] == 0) free.push_back(i);
    }
    std::size_t taken = 0;
    for (; taken < free.size(); ++taken) {
      for (const std::uint32_t callee : facts[free[taken]].enters) {
        if (--entered[callee] == 0) free.push_back(callee);
      }
    }
    return taken < rules_.size();
  }

  std::shared_ptr<Grammar> grammar_ = std::make_shared<Grammar>();
  std::vector<Rule> rules_;
  std::map<std::vector<std::pair<std::uint32_t, std::uint32_t>>, Rule> classes_;
};

Result<std::shared_ptr<const Grammar>> Grammar::Compile(std::string_view text) {
  SVC_ASSIGN_OR_RETURN(const Gbnf gbnf, ParseGbnf(text));
  return GrammarBuilder().Build(gbnf);
}

void Grammar::FindByteClasses() {
  std::array<bool, 257> begins{};
  begins[0] = true;
  for (const Edge& edge : edges_) {
    if (edge.kind != Edge::Kind::kByte) continue;
    begins[edge.low] = true;
    begins[edge.high + 1U] = true;
  }
  std::size_t classes = 0;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    if (begins[byte]) ++classes;
    byte_classes_[byte] = static_cast<std::uint8_t>(classes - 1);
  }
  byte_class_count_ = classes;
}

void Grammar::FindExits() {
  std::vector<bool> visited(nodes_.size());
  std::vector<Node> path;
  for (Node first = 0; first < nodes_.size(); ++first) {
    path.clear();
    Node node = first;
    const auto only_jumps = [&] {
      const std::uint32_t edge = nodes_[node].first_edge;
      return edge != kNone && edges_[edge].kind == Edge::Kind::kJump && edges_[edge].next == kNone;
    };
    while (!visited[node] && only_jumps()) {
      visited[node] = true;
      path.push_back(node);
      node = edges_[nodes_[node].first_edge].target;
    }
    if (nodes_[node].ends_rule) nodes_[node].only_leaves_rule = true;
    for (const Node passed : path) nodes_[passed].only_leaves_rule = nodes_[node].only_leaves_rule;
  }
}

}  // namespace svc
