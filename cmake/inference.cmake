# libgluino_inference.a: exported models behind gluino/c_api.h, for programs that carry what they need. Without LLVM, the image libraries,
# training, data and ONNX; fused loops are interpreted. One object in which only the names of the C interface are seen: operators enter themselves
# in a table when a program starts, and a linker would leave out those that nobody calls by name.
add_library(gluino_without_onnx OBJECT ${CMAKE_CURRENT_SOURCE_DIR}/c_api/without_onnx/onnx_model.cc)
target_include_directories(gluino_without_onnx PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(gluino_without_onnx PRIVATE fmt::fmt)
set(objects "$<FILTER:$<TARGET_OBJECTS:gluino_gluon>,INCLUDE,/gluon/(block/|named)>" "$<FILTER:$<TARGET_OBJECTS:gluino_c>,EXCLUDE,onnx_model>"
  "$<TARGET_OBJECTS:gluino_without_onnx>")
foreach(folder ${folders})
  if(NOT folder MATCHES "_(distributed|gluon|onnx)$")
    list(APPEND objects "$<FILTER:$<TARGET_OBJECTS:${folder}>,EXCLUDE,/debug_text>")
  endif()
endforeach()
set(inference_library ${PROJECT_BINARY_DIR}/src/libgluino_inference.a)
set(inference_object ${CMAKE_CURRENT_BINARY_DIR}/inference/gluino_inference.o)
file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/inference/objects.txt CONTENT "$<JOIN:${objects},\n>\n")
set(joining_linker ${CMAKE_LINKER})
if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  find_program(GNU_LINKER ld.bfd REQUIRED)  # Clang's own does not join groups
  set(joining_linker ${GNU_LINKER})
endif()
add_custom_command(OUTPUT ${inference_library}
  COMMAND ${joining_linker} -r --force-group-allocation -o ${inference_object} @${CMAKE_CURRENT_BINARY_DIR}/inference/objects.txt
  # Names that are unique in a whole program would stay so.
  COMMAND sh -c "${CMAKE_NM} ${inference_object} | sed -n 's/.* u //p' > ${inference_object}.unique"
  COMMAND ${CMAKE_OBJCOPY} --weaken-symbols=${inference_object}.unique ${inference_object}
  COMMAND ${CMAKE_OBJCOPY} --wildcard --keep-global-symbol=gluino_* --strip-unneeded ${inference_object}
  COMMAND ${CMAKE_COMMAND} -E rm -f ${inference_library}
  COMMAND ${CMAKE_AR} rcs ${inference_library} ${inference_object}
  COMMAND ${CMAKE_COMMAND} -E rm -f ${inference_object}
  DEPENDS ${objects} ${CMAKE_CURRENT_BINARY_DIR}/inference/objects.txt COMMENT "Joining libgluino_inference.a" VERBATIM)
add_custom_target(gluino_inference ALL DEPENDS ${inference_library})

# pkg-config says what else a program needs.
file(RELATIVE_PATH prefix_from_here /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(c_api/gluino_inference.pc.in ${PROJECT_BINARY_DIR}/gluino_inference.pc @ONLY)
install(FILES ${inference_library} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT inference)
install(FILES ${PROJECT_BINARY_DIR}/gluino_inference.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT inference)
if(GLUINO_INFERENCE_ONLY)
  install(FILES ${PROJECT_SOURCE_DIR}/include/gluino/c_api.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gluino COMPONENT inference)
endif()
