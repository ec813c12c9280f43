# Embeds ops/*.op as string constants, so that the command works from any folder without looking for its library.
file(GLOB OPWRIGHT_OPS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/ops/*.op)
set(OPWRIGHT_EMBEDDED_OPS ${CMAKE_BINARY_DIR}/embedded_ops.cpp)
add_custom_command(OUTPUT ${OPWRIGHT_EMBEDDED_OPS}
  COMMAND ${CMAKE_COMMAND} -D "FILES=${OPWRIGHT_OPS}" -D OUT=${OPWRIGHT_EMBEDDED_OPS}
          -P ${CMAKE_SOURCE_DIR}/cmake/embed_ops_script.cmake
  DEPENDS ${OPWRIGHT_OPS} ${CMAKE_SOURCE_DIR}/cmake/embed_ops_script.cmake VERBATIM)
