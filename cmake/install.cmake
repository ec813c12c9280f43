# Installs the command, the shared library, the headers and a package file for find_package(opwright).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
install(TARGETS opwright RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS opwright_shared EXPORT opwrightTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/opwright DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT opwrightTargets NAMESPACE opwright:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/opwright)
configure_package_config_file(cmake/opwrightConfig.cmake.in ${CMAKE_BINARY_DIR}/opwrightConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/opwright)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/opwrightConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/opwrightConfig.cmake ${CMAKE_BINARY_DIR}/opwrightConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/opwright)
