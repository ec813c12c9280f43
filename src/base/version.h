// The version of this library; CMakeLists.txt states the same.
#pragma once

namespace opwright {
inline constexpr const char* kVersion = "0.1.0";
}
