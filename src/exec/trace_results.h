// Which results of a traced function are tensors that its caller has already, or views of them, or of each other.
#pragma once
#include "exec/trace_program.h"

namespace gluino {

class TraceResults {
 public:
  // locate: where a value of the trace is.
  TraceResults(Tracer& tracer, const Tensors& symbolic, const Tensors& inputs, std::function<TracedValue(const Value&)> locate)
      : tracer_(tracer), symbolic_(symbolic), inputs_(inputs), locate_(std::move(locate)) {}
  void put(Tensors results, Ending& ending);

  // Why no program can give these: it could not tell which tensor a branch or loop has passed on. Empty: one can.
  static std::string why_not(const Tracer& tracer, const Tensors& results);

 private:
  struct Origin {
    Tensor root;
    std::vector<std::function<Tensor(const Tensor&)>> views;  // from the root to the tensor
    Tensors shapes_read;                                      // the views are right for these shapes
    bool is_detached = false;
  };
  // Where tensors are found that results may be, or be views of: the first input and the first result of each.
  struct Owners;

  static std::optional<Origin> origin_of(const Tensor& t);
  static bool is_clear(const Tracer& tracer, const Tensor& t);
  void add(const Tensor& result);
  bool is_added(const Tensor& t) const;
  bool is_input(const Tensor& t) const;
  void add_common_roots();
  void add_what_was_passed_on();
  std::optional<Ending::Alias> alias_of(const Origin& o, const Owners& owners, size_t number) const;
  Ending::Alias alias_of_passed_on(const Tensor& t, const Owners& owners, size_t number);
  void note_shape_read(const Origin& o);

  Tracer& tracer_;
  const Tensors &symbolic_, &inputs_;
  std::function<TracedValue(const Value&)> locate_;
  Tensors results_;
  std::vector<std::optional<Origin>> origins_;  // of each, but for null tensors and views that nobody can make again
};

}  // namespace gluino
