# The installed tree: lib/libgluino.so and libgluino_c.so, include/gluino with the generated ops.h, lib/cmake/gluino for
# find_package(gluino), lib/pkgconfig for the C interface. What programs are built with is the component dev, the Python package python,
# all else runtime.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gluino)

install(TARGETS gluino EXPORT gluino-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_COMPONENT dev)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/gluino DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_BINARY_DIR}/generated/gluino/ops.h ${PROJECT_BINARY_DIR}/generated/gluino/version.h
  ${PROJECT_SOURCE_DIR}/bindings/cpp/gluino/c_model.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gluino
  COMPONENT dev)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/data/ DESTINATION ${CMAKE_INSTALL_DATADIR}/gluino)
install(EXPORT gluino-targets NAMESPACE gluino:: DESTINATION ${package_dir} COMPONENT dev)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/gluino-config.cmake.in ${PROJECT_BINARY_DIR}/gluino-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/gluino-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/gluino-config.cmake ${PROJECT_BINARY_DIR}/gluino-config-version.cmake DESTINATION ${package_dir}
  COMPONENT dev)
