# Run with -P: writes OUT, a C++ file that defines opwright::target::ascend::simulator_headers() from FILES below ROOT.
set(text "// Generated from ascend_sim/.\n#include \"target/ascend/simulate.h\"\nnamespace opwright::target::ascend {\nstd::vector<SourceFile> simulator_headers() {\n  std::vector<SourceFile> files;\n")
foreach(file ${FILES})
  file(RELATIVE_PATH name "${ROOT}" "${file}")
  file(READ "${file}" content HEX)
  # Bytes as a comma list: string literals have a length limit in the standard.
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${content}")
  string(APPEND text "  { static const char t[] = {${bytes} 0}; files.push_back({\"${name}\", std::string(t, sizeof t - 1)}); }\n")
endforeach()
string(APPEND text "  return files;\n}\n}  // namespace opwright::target::ascend\n")
file(WRITE "${OUT}" "${text}")
