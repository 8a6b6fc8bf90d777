#include "kernels/convolution/dnnl_support.h"

#include "base/openmp.h"

namespace gluino::kernels {

const dnnl::engine& dnnl_engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}
dnnl::stream& dnnl_stream() {
  thread_local dnnl::stream s(dnnl_engine());
  return s;
}
dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

void append_extents(std::vector<int64_t>& key, const ConvGeometry& g) {
  for (const Spatial* s : {&g.in, &g.out, &g.kernel, &g.stride, &g.dilate, &g.pad}) key.insert(key.end(), s->begin(), s->end());
}

OneDnnlThread::OneDnnlThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
OneDnnlThread::~OneDnnlThread() { omp_set_num_threads(before_); }

}  // namespace gluino::kernels
