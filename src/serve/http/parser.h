// The head of a request, and bodies in chunks: RFC 9112, strictly, because what two readers understand differently is a way to smuggle
// requests past one of them.
#pragma once
#include "serve/http/message.h"

namespace gluino::serve {

inline constexpr size_t kMaxHead = 16384;  // bytes of the request line and the headers

// Fills the rest of the request from its head, the empty line included. Raises HttpError.
void parse_head(HttpRequest& request);

class ChunkDecoder {
 public:
  // Appends what the chunks hold to `body`, which gets at most so many bytes; returns how many bytes of `in` it has taken. Raises
  // HttpError.
  size_t feed(std::string_view in, std::string& body, size_t most);
  bool is_done() const { return state_ == State::done; }

 private:
  enum class State { size, data, data_end, trailer, done };
  bool take_line(std::string_view in, size_t& at);  // into line_; false: its end has not come yet
  State state_ = State::size;
  std::string line_;
  uint64_t left_ = 0;
  size_t trailer_bytes_ = 0;
};

// The parts of a path between slashes, with %41 decoded. Raises HttpError.
std::vector<std::string> path_segments(std::string_view path);

}  // namespace gluino::serve
