// memcpy for parts of arrays.
#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace gluino {

// glibc before 2.39 copies 2 KB and more with `rep movsb`, which takes fourteen times as long on Zen 3 and 4 where the target lies up to 32
// bytes after the source within a page (its bug 30994); small pieces, which are moved without a call, do not.
inline void copy_bytes(void* to, const void* from, int64_t bytes) {
  constexpr int64_t kPiece = 64, kFromPieces = 2048;
  constexpr uintptr_t kPage = 4096, kNear = 64;
  auto* target = static_cast<char*>(to);
  const auto* source = static_cast<const char*>(from);
  const uintptr_t distance = (reinterpret_cast<uintptr_t>(target) - reinterpret_cast<uintptr_t>(source)) % kPage;
  if (bytes >= kFromPieces && distance > 0 && distance < kNear)
    for (; bytes > kPiece; bytes -= kPiece, target += kPiece, source += kPiece) std::memcpy(target, source, kPiece);
  std::memcpy(target, source, static_cast<size_t>(bytes));
}

// Calls f with the size, a constant where it is one of single elements and of a block of channels: these are moved without a call.
template <class F>
void visit_piece_size(int64_t bytes, F&& f) {
  switch (bytes) {
    case 1: return f(std::integral_constant<int64_t, 1>());
    case 2: return f(std::integral_constant<int64_t, 2>());
    case 4: return f(std::integral_constant<int64_t, 4>());
    case 8: return f(std::integral_constant<int64_t, 8>());
    case 32: return f(std::integral_constant<int64_t, 32>());
    default: return f(bytes);
  }
}
// n pieces: number i goes from from(i) to to(i).
template <class To, class From>
void copy_pieces(int64_t bytes, int64_t n, To&& to, From&& from) {
  visit_piece_size(bytes, [&](auto size) {
    for (int64_t i = 0; i < n; ++i) copy_bytes(to(i), from(i), size);
  });
}

}  // namespace gluino
