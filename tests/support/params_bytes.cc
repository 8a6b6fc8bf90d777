#include "support/params_bytes.h"

namespace gluino::test {
namespace {

Bytes list_of(uint64_t count) { return Bytes().u64(0x112).u64(0).u64(count); }

ParamsFile v0() {
  Bytes b = list_of(2);
  b.u32(2).u32(1).u32(3).i32(1).i32(0).i32(0).f32(1).f32(2).f32(3);
  b.u32(1).u32(2).i32(2).i32(1).i32(4).i32(7).i32(8);  // from a gpu
  b.u64(2).u64(1).text("a").u64(6).text("fc bia");
  return {"V0", b.str(), {{"a", tensor({{1, 2, 3}})}, {"fc bia", tensor({7, 8}, {DType::int32})}}};
}
ParamsFile v1() {
  Bytes b = list_of(1);
  b.u32(0xF993fac8).u32(2).i64(2).i64(1).i32(1).i32(0).i32(8).u16(5).u16(0xffff);  // int16
  b.u64(0);
  return {"V1", b.str(), {{"", tensor({{5}, {-1}}, {DType::int32})}}};
}
ParamsFile v3() {
  Bytes b = list_of(2);
  b.u32(0xF993faca).i32(0).i32(0).i32(1).i32(0).i32(0).f32(4);
  b.u32(0xF993faca).i32(0).i32(2).i64(0).i64(5).i32(1).i32(0).i32(0);
  b.u64(2).u64(1).text("s").u64(1).text("e");
  return {"V3", b.str(), {{"s", Tensor(4.0)}, {"e", zeros({0, 5})}}};
}
ParamsFile row_sparse() {
  Bytes b = list_of(1);
  b.u32(0xF993fac9).i32(1).u32(2).i64(2).i64(2).u32(2).i64(4).i64(2).i32(1).i32(0).i32(0);
  b.i32(6).u32(1).i64(2);                       // indices: int64, (2,)
  b.f32(1).f32(2).f32(3).f32(4).i64(1).i64(3);  // rows 1 and 3
  b.u64(1).u64(1).text("r");
  return {"row_sparse", b.str(), {{"r", tensor({{0, 0}, {1, 2}, {0, 0}, {3, 4}})}}};
}
ParamsFile csr() {
  Bytes b = list_of(1);
  b.u32(0xF993fac9).i32(2).u32(1).i64(3).u32(2).i64(2).i64(3).i32(1).i32(0).i32(0);
  b.i32(6).u32(1).i64(3).i32(6).u32(1).i64(3);  // indptr (3,), indices (3,)
  b.f32(1).f32(2).f32(3).i64(0).i64(1).i64(3).i64(2).i64(0).i64(1);
  b.u64(1).u64(1).text("c");
  return {"csr", b.str(), {{"c", tensor({{0, 0, 1}, {2, 3, 0}})}}};
}

}  // namespace

std::vector<ParamsFile> params_of_every_era() { return {v0(), v1(), v3(), row_sparse(), csr()}; }

}  // namespace gluino::test
