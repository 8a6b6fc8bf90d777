// In the place of ONNX models, in the library for inference alone.
#include "base/format.h"
#include "c_api/model.h"

namespace gluino::c_api {

[[noreturn]] static void refuse(const std::string& what) {
  raise<UserError>("'{}' is an ONNX model, which this library does not read; make one file of it first: gluino convert a.onnx -o a.gluino",
                   what);
}

std::unique_ptr<Model> load_onnx(const std::string& path) { refuse(path); }
std::unique_ptr<Model> read_onnx(std::string_view, const std::string& what) { refuse(what); }

}  // namespace gluino::c_api
