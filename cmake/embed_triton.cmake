# Embeds the Triton target's Python files.
file(GLOB OPWRIGHT_TRITON_PYTHON CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/target/triton/python/*.py)
set(OPWRIGHT_EMBEDDED_TRITON ${CMAKE_BINARY_DIR}/embedded_triton.cpp)
add_custom_command(OUTPUT ${OPWRIGHT_EMBEDDED_TRITON}
  COMMAND ${CMAKE_COMMAND} -D "FILES=${OPWRIGHT_TRITON_PYTHON}" -D OUT=${OPWRIGHT_EMBEDDED_TRITON}
          -D NAMESPACE=opwright::target::triton -D FUNCTION=resource
          -P ${CMAKE_SOURCE_DIR}/cmake/embed_text_script.cmake
  DEPENDS ${OPWRIGHT_TRITON_PYTHON} ${CMAKE_SOURCE_DIR}/cmake/embed_text_script.cmake VERBATIM)
