// A table of the documentation whose cells a test computes. The test compares them with the page;
// with SVC_UPDATE_DOCS=1 in the environment it writes them into the page instead.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "test.h"

namespace svc::test {

// One thread. One process at a time may write a page.
class DocTable {
 public:
  // Reads the table of the page whose first column has the title `first`.
  DocTable(std::string path, const std::string& first) : path_(std::move(path)) {
    std::ifstream page(path_);
    bool is_inside = false;
    for (std::string line; std::getline(page, line);) {
      const bool is_head = titles_.empty() && line.starts_with("| " + first + " |");
      is_inside = is_head || (is_inside && line.starts_with("|"));
      if (is_head) titles_ = CellsOf(line);
      if (is_inside && !is_head && !line.starts_with("|-")) {
        std::vector<std::string> cells = CellsOf(line);
        const std::string name = cells[0];
        rows_[name] = std::move(cells);
      } else {
        (rows_.empty() ? before_ : after_).push_back(line);
      }
    }
    if (titles_.empty()) Fail(path_.c_str(), 0, "has no table of each " + first);
  }

  // Returns the text of a cell; empty: there is no such row.
  std::string Cell(const std::string& row, const std::string& title) const {
    const auto found = rows_.find(row);
    const std::size_t column = Column(title);
    return found == rows_.end() || column >= found->second.size() ? "" : found->second[column];
  }

  // The cell must have this text.
  void Expect(const std::string& row, const std::string& title, const std::string& text) {
    const std::string now = Cell(row, title);
    if (now == text) return;
    if (!IsUpdating()) {
      Fail(path_.c_str(), 0,
           row + ": " + title + " is \"" + text + "\", the page has \"" + now +
               "\" (run this test with SVC_UPDATE_DOCS=1)");
      return;
    }
    std::vector<std::string>& cells = rows_[row];
    cells.resize(titles_.size(), "–");
    cells[0] = row;
    cells.at(Column(title)) = text;
  }

  // These must be all rows. Call it last: it writes the page, if that is asked for.
  void ExpectRows(const std::set<std::string>& rows) {
    for (auto row = rows_.begin(); row != rows_.end();) {
      if (!IsUpdating() && !rows.contains(row->first)) {
        Fail(path_.c_str(), 0, row->first + ": this row should not exist");
      }
      row = IsUpdating() && !rows.contains(row->first) ? rows_.erase(row) : std::next(row);
    }
    if (IsUpdating()) Write();
  }

 private:
  static bool IsUpdating() { return std::getenv("SVC_UPDATE_DOCS") != nullptr; }

  static std::vector<std::string> CellsOf(const std::string& line) {
    std::vector<std::string> cells;
    std::size_t begin = 1;
    for (std::size_t end = line.find('|', begin); end != std::string::npos;
         end = line.find('|', begin)) {
      const std::string cell = line.substr(begin, end - begin);
      const std::size_t first = cell.find_first_not_of(' ');
      const std::size_t last = cell.find_last_not_of(' ');
      cells.push_back(first == std::string::npos ? "" : cell.substr(first, last + 1 - first));
      begin = end + 1;
    }
    return cells;
  }

  std::size_t Column(const std::string& title) const {
    return static_cast<std::size_t>(std::find(titles_.begin(), titles_.end(), title) -
                                    titles_.begin());
  }

  void Write() const {
    std::ofstream page(path_);
    for (const std::string& line : before_) page << line << '\n';
    for (const auto& [name, cells] : rows_) {
      page << '|';
      for (const std::string& cell : cells) page << ' ' << cell << " |";
      page << '\n';
    }
    for (const std::string& line : after_) page << line << '\n';
  }

  const std::string path_;
  std::vector<std::string> titles_;
  std::vector<std::string> before_;  // lines before the rows, the titles included
  std::map<std::string, std::vector<std::string>> rows_;
  std::vector<std::string> after_;
};

}  // namespace svc::test
