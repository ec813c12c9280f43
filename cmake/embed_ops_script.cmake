# Run with -P: writes OUT, a C++ file that defines opwright::lang::embedded_library() from FILES.
set(text "// Generated from ops/*.op.\n#include \"lang/library.h\"\nnamespace opwright::lang {\nconst std::vector<EmbeddedFile>& embedded_library() {\n  static const std::vector<EmbeddedFile> files = {\n")
foreach(file ${FILES})
  get_filename_component(name "${file}" NAME)
  file(READ "${file}" content HEX)
  # Bytes as a comma list: string literals have a length limit in the standard.
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${content}")
  string(APPEND text "    {\"${name}\", [] { static const char t[] = {${bytes} 0}; return std::string_view(t, sizeof t - 1); }()},\n")
endforeach()
string(APPEND text "  };\n  return files;\n}\n}  // namespace opwright::lang\n")
file(WRITE "${OUT}" "${text}")
