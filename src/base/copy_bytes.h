// memcpy for parts of arrays.
#pragma once
#include <cstdint>
#include <cstring>

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

}  // namespace gluino
