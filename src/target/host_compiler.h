// Generated C and C++ built and loaded on this machine with the compiler that is installed: for targets whose code runs
// on the host, and for simulators.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "target/target.h"

namespace opwright::target {

// A loaded shared library; unloaded, and its files removed, when the last owner is gone.
class SharedLibrary {
public:
    virtual ~SharedLibrary() = default;
    virtual void* symbol(const std::string& name) const = 0;  // nullptr where there is none
};

// The command that compiles C ("cc") or C++ ("c++") here; empty when there is none.
std::string host_compiler(bool cplusplus);

// Compiles `main`, one of `files`, in a folder of its own. Errors: no compiler; what the compiler said first.
Result<std::shared_ptr<SharedLibrary>> build_shared_library(const std::vector<SourceFile>& files,
                                                            const std::string& main,
                                                            const std::vector<std::string>& flags);

}  // namespace opwright::target
