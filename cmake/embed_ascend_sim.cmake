# Embeds the headers of ascend_sim/, so that the command can run emitted kernels from any folder.
file(GLOB_RECURSE OPWRIGHT_SIM_HEADERS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/ascend_sim/*.h)
set(OPWRIGHT_EMBEDDED_SIM ${CMAKE_BINARY_DIR}/embedded_ascend_sim.cpp)
add_custom_command(OUTPUT ${OPWRIGHT_EMBEDDED_SIM}
  COMMAND ${CMAKE_COMMAND} -D "FILES=${OPWRIGHT_SIM_HEADERS}" -D ROOT=${CMAKE_SOURCE_DIR}/ascend_sim -D OUT=${OPWRIGHT_EMBEDDED_SIM}
          -P ${CMAKE_SOURCE_DIR}/cmake/embed_ascend_sim_script.cmake
  DEPENDS ${OPWRIGHT_SIM_HEADERS} ${CMAKE_SOURCE_DIR}/cmake/embed_ascend_sim_script.cmake VERBATIM)
