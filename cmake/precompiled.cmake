# Headers that are read once instead of in every unit. They save compiling time and nothing else: a unit includes what it uses, and must
# compile without them (-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON, as the presets asan and tsan do).
#
# gluino_precompiled(<set> <kind> <headers>...): PIC for libraries, PIE for programs; GCC takes precompiled headers at every level of
# optimisation but not from one kind to the other. The set is a library of nothing but these headers: others take them from it with
# gluino_use_precompiled(<set> <targets>...), which must be compiled with its definitions; targets that are not
# part of this build are passed over.
set(CMAKE_PCH_WARN_INVALID ON)
function(gluino_precompiled set kind)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${set}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(gluino_headers_${set} OBJECT ${source})
  if(kind STREQUAL PIE)
    # An object library is compiled for a shared one; this one is not.
    set_target_properties(gluino_headers_${set} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(gluino_headers_${set} PRIVATE ${CMAKE_CXX_COMPILE_OPTIONS_PIE})
  endif()
  target_precompile_headers(gluino_headers_${set} PRIVATE ${ARGN})
endfunction()

function(gluino_use_precompiled set)
  foreach(target ${ARGN})
    if(TARGET ${target})
      target_precompile_headers(${target} REUSE_FROM gluino_headers_${set})
    endif()
  endforeach()
endfunction()
