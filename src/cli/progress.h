// What is going on, on one line of the terminal; nothing where the error stream is no terminal.
#pragma once
#include <string>

namespace gluino::cli {

class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(double fraction);  // from 0 to 1
  void end();                  // takes the line away

 private:
  std::string what_;
  bool is_shown_;
  int percent_ = -1;
};

}  // namespace gluino::cli
