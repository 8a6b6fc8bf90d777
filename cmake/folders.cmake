# gluino_folder(name): one object library per folder of src, made of all .cc files in it and below.
# The arrows between folders are checked by tools/check_includes.py.
function(gluino_folder name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  add_library(gluino_${name} OBJECT ${sources})
  target_include_directories(gluino_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(gluino_${name} PUBLIC fmt::fmt OpenMP::OpenMP_CXX DNNL::dnnl PkgConfig::OPENBLAS PkgConfig::LAPACKE)
  set_property(GLOBAL APPEND PROPERTY GLUINO_FOLDERS gluino_${name})
endfunction()
