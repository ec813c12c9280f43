# Run with -P: writes OUT, a C++ file that defines FUNCTION(name) in NAMESPACE, the text of the one of FILES so called.
set(text "// Generated.\n#include <string_view>\nnamespace ${NAMESPACE} {\nstd::string_view ${FUNCTION}(std::string_view name) {\n")
foreach(file ${FILES})
  get_filename_component(name "${file}" NAME)
  file(READ "${file}" content HEX)
  # Bytes as a comma list: string literals have a length limit in the standard.
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${content}")
  string(APPEND text "  if (name == \"${name}\") {\n    static const char t[] = {${bytes} 0};\n    return {t, sizeof t - 1};\n  }\n")
endforeach()
string(APPEND text "  return {};\n}\n}  // namespace ${NAMESPACE}\n")
file(WRITE "${OUT}" "${text}")
