# Instruction sets that there are kernels for: the least that every CPU of its kind has, and more of x86-64.
set(GLUINO_ISAS baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND GLUINO_ISAS avx2 avx512)
endif()

# gluino_isa(<kernel> [SUMS_OF_PRODUCTS]): src/kernels/<kernel>_impl.h is compiled once per instruction set, each time in a namespace
# of its own (GLUINO_ISA); which one runs is chosen at run time. SUMS_OF_PRODUCTS: a * b + c is one instruction where the CPU has it.
set(isa_baseline_options -O3 -fno-trapping-math)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # Threaded jumps make a limit to both sides, x > high ? high : x < low ? low : x, several times as long once it is a vector's.
  # Its own headers leave vectors uninitialised on purpose, and it warns of them.
  list(APPEND isa_baseline_options -fno-thread-jumps -Wno-uninitialized -Wno-maybe-uninitialized)
else()
  list(APPEND isa_baseline_options -Wno-pass-failed)  # loops that call libm are no vectors' whatever they are said to be
endif()
set(isa_avx2_options ${isa_baseline_options} -mavx2 -mfma -mf16c)
set(isa_avx512_options ${isa_baseline_options} -mavx512f -mavx512vl -mavx512dq -mavx512bw -mfma -mprefer-vector-width=512)

function(gluino_isa kernel)
  cmake_parse_arguments(PARSE_ARGV 1 kernel "SUMS_OF_PRODUCTS" "" "")
  foreach(isa ${GLUINO_ISAS})
    set(source ${CMAKE_CURRENT_BINARY_DIR}/isa/${kernel}_${isa}.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "#define GLUINO_ISA ${isa}\n#include \"kernels/${kernel}_impl.h\"\n")
    set(options ${isa_${isa}_options})
    if(kernel_SUMS_OF_PRODUCTS)
      list(APPEND options -ffp-contract=fast -Wno-psabi)
    endif()
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${options}" SKIP_PRECOMPILE_HEADERS ON)
    target_sources(gluino_kernels PRIVATE ${source})
  endforeach()
endfunction()
