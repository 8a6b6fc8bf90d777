// What a debugger shows of a tensor (tools/gluino_gdb.py): a plain function that it can call also where the library has no debug
// information. It looks at the tensor without being noticed: while tracing, a read would end a segment.
#include "base/format.h"
#include "tensor/impl.h"

namespace gluino {
namespace {

constexpr int64_t kShownElements = 8;

std::string first_elements(const detail::TensorImpl& t) {
  const int64_t count = t.shape.elements();
  std::string text = "[";
  visit_dtype(t.dtype, [&]<class T>(T*) {
    for (int64_t i = 0; i < std::min(count, kShownElements); ++i)
      text += fmt::format("{}{:g}", i ? ", " : "", static_cast<double>(reinterpret_cast<const T*>(t.data)[i]));
  });
  return text + (count > kShownElements ? ", ...]" : "]");
}

std::string text_of(const Tensor& t) {
  if (!t.defined()) return "null tensor";
  const detail::TensorImpl& impl = impl_of(t);
  if (impl.symbolic)
    return fmt::format("symbolic {} {}: {}", impl.symbolic->has_dtype ? std::string(dtype_name(impl.dtype)) : "?",
                       impl.symbolic->has_shape ? impl.shape.str() : "(?)", impl.symbolic->describe());
  const std::string kind = fmt::format("{} {} on {}", dtype_name(impl.dtype), impl.shape, impl.device.str());
  return impl.storage ? kind + ": " + first_elements(impl) : kind + ", without values";
}

}  // namespace
}  // namespace gluino

extern "C" [[gnu::used, gnu::visibility("default")]] const char* gluino_debug_text(const void* tensor) noexcept {
  static thread_local std::string text;
  try {
    text = gluino::text_of(*static_cast<const gluino::Tensor*>(tensor));
  } catch (const std::exception& e) {
    text = e.what();
  }
  return text.c_str();
}
