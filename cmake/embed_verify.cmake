# Embeds the Python files that run functions under test.
file(GLOB OPWRIGHT_VERIFY_PYTHON CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/verify/python/*.py)
set(OPWRIGHT_EMBEDDED_VERIFY ${CMAKE_BINARY_DIR}/embedded_verify.cpp)
add_custom_command(OUTPUT ${OPWRIGHT_EMBEDDED_VERIFY}
  COMMAND ${CMAKE_COMMAND} -D "FILES=${OPWRIGHT_VERIFY_PYTHON}" -D OUT=${OPWRIGHT_EMBEDDED_VERIFY}
          -D NAMESPACE=opwright::verify -D FUNCTION=python_file
          -P ${CMAKE_SOURCE_DIR}/cmake/embed_text_script.cmake
  DEPENDS ${OPWRIGHT_VERIFY_PYTHON} ${CMAKE_SOURCE_DIR}/cmake/embed_text_script.cmake VERBATIM)
