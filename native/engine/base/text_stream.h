// Turns token bytes into text that may be delivered: whole UTF-8 characters, no part of a stop
// string.
//
// Two stages. Bytes are held back until they complete a character. Invalid bytes become U+FFFD, one
// for each maximal invalid sequence, as in the Unicode standard and in llama-server's JSON.
// Characters are held back while they may begin a stop string. The text ends before the stop string
// that starts earliest, as in llama-server.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace svc {

// Owner: one generation. Not thread-safe.
class TextStream {
 public:
  // `own_stop`: stop strings of the model's template; never reported to the client. Empty stop
  // strings are ignored.
  explicit TextStream(std::vector<std::string> stop, std::vector<std::string> own_stop = {});

  // Adds the bytes of a token and appends the text that may be delivered now to *text. Returns true
  // when a stop string is complete: the text has ended. REQUIRES: the last call, of this or of
  // PassStop, did not return true.
  bool Push(std::string_view bytes, std::string* text);

  // Takes the stop string that stopped_by() names as text, and searches on after its first
  // character. Otherwise as Push. REQUIRES: stopped_by() is not null.
  bool PassStop(std::string* text);

  // Appends everything held back to *text. For a generation that ended without a stop string.
  void Finish(std::string* text);

  // The string of `stop` that ended the text. Null: none did.
  const std::string* stopped_by() const {
    return stopped_by_ < told_ ? &stop_[stopped_by_] : nullptr;
  }

  // Bytes held back. Invalid UTF-8 counts with the size of its replacement character.
  std::size_t held() const { return bytes_.size() + characters_.size(); }

 private:
  void TakeCharacters(bool all);
  bool Search(std::size_t from, std::string* text);

  std::vector<std::string> stop_;               // then those of the template
  std::size_t told_;                            // number of those before the template's
  std::size_t stopped_by_ = std::string::npos;  // index in stop_
  std::string bytes_;                           // not yet a whole character
  std::string characters_;                      // whole characters that may start a stop string
};

}  // namespace svc
