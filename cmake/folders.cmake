# gluino_folder(name [regex]): one object library per folder of src, made of all .cc files in it and below whose paths fit.
# The arrows between folders are checked by tools/check_includes.py.
function(gluino_folder name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  list(FILTER sources INCLUDE REGEX "${ARGN}")
  add_library(gluino_${name} OBJECT ${sources})
  gluino_folder_options(gluino_${name})
  set_property(GLOBAL APPEND PROPERTY GLUINO_FOLDERS gluino_${name})
endfunction()

function(gluino_folder_options target)
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} PUBLIC fmt::fmt gluino_openmp DNNL::dnnl PkgConfig::OPENBLAS PkgConfig::LAPACKE)
endfunction()
