#include "jit/bitcode.h"

// GLUINO_BITCODE_FOLDER is where the build has put them.
#define EMBED(isa)                                                                         \
  __asm__(                                                                                 \
      ".pushsection .rodata\n"                                                             \
      ".global gluino_bitcode_" isa "\n.global gluino_bitcode_" isa                        \
      "_end\n.balign 16\n"                                                                 \
      "gluino_bitcode_" isa ":\n.incbin \"" GLUINO_BITCODE_FOLDER "/scalar_functions_" isa \
      ".bc\"\n"                                                                            \
      "gluino_bitcode_" isa "_end:\n.popsection\n");
EMBED("baseline")
#if defined(__x86_64__)
EMBED("avx2")
EMBED("avx512")
#endif

#define DECLARE(isa) extern const char gluino_bitcode_##isa[], gluino_bitcode_##isa##_end[];
extern "C" {
DECLARE(baseline)
#if defined(__x86_64__)
DECLARE(avx2)
DECLARE(avx512)
#endif
}

namespace gluino::jit {

std::string_view bitcode_for(std::string_view isa) {
#if defined(__x86_64__)
  if (isa == "avx512") return {gluino_bitcode_avx512, gluino_bitcode_avx512_end};
  if (isa == "avx2") return {gluino_bitcode_avx2, gluino_bitcode_avx2_end};
#endif
  static_cast<void>(isa);  // elsewhere there is one alone
  return {gluino_bitcode_baseline, gluino_bitcode_baseline_end};
}

}  // namespace gluino::jit
