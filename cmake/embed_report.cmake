# Embeds the page of `opwright profile --html`: its own files, and the libraries that draw it, which travel inside every
# page. They come with Debian's packages and a wheel in .venv; scripts/setup.sh installs both and says why.
set(OPWRIGHT_D3 /usr/share/nodejs/d3/dist/d3.min.js)
set(OPWRIGHT_PRISM_FOLDER /usr/share/nodejs/prismjs/components)
file(GLOB OPWRIGHT_DAGRE LIST_DIRECTORIES false ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/netron/dagre.js)
set(OPWRIGHT_REPORT_LIBRARIES ${OPWRIGHT_D3} ${OPWRIGHT_DAGRE})
foreach(name core clike c cpp python llvm)
  list(APPEND OPWRIGHT_REPORT_LIBRARIES ${OPWRIGHT_PRISM_FOLDER}/prism-${name}.min.js)
endforeach()
foreach(library ${OPWRIGHT_REPORT_LIBRARIES})
  if(NOT EXISTS ${library})
    message(FATAL_ERROR "${library} is missing, which the page of `opwright profile --html` is drawn with.\n"
                        "scripts/setup.sh installs it.")
  endif()
endforeach()
if(NOT OPWRIGHT_DAGRE)
  message(FATAL_ERROR "netron's dagre.js is missing in .venv, which the page of `opwright profile --html` is drawn with.\n"
                      "scripts/setup.sh installs it.")
endif()

file(GLOB OPWRIGHT_REPORT_FILES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/explain/report/*)
list(APPEND OPWRIGHT_REPORT_FILES ${OPWRIGHT_REPORT_LIBRARIES})
set(OPWRIGHT_EMBEDDED_REPORT ${CMAKE_BINARY_DIR}/embedded_report.cpp)
add_custom_command(OUTPUT ${OPWRIGHT_EMBEDDED_REPORT}
  COMMAND ${CMAKE_COMMAND} -D "FILES=${OPWRIGHT_REPORT_FILES}" -D OUT=${OPWRIGHT_EMBEDDED_REPORT}
          -D NAMESPACE=opwright::explain -D FUNCTION=report_file
          -P ${CMAKE_SOURCE_DIR}/cmake/embed_text_script.cmake
  DEPENDS ${OPWRIGHT_REPORT_FILES} ${CMAKE_SOURCE_DIR}/cmake/embed_text_script.cmake VERBATIM)
