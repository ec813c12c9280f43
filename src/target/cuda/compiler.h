// CUDA C++ source text to a cubin: machine code of one GPU generation, by NVRTC where it is installed, else by nvcc.
// Never PTX: that of a newer compiler fails on an older driver.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"

namespace opwright::target::cuda {

struct CompileOptions {
    std::string arch = "sm_90a";       // of the GPU that will run it
    std::vector<std::string> defines;  // "INDEX=long long"
    bool cache = true;                 // keep cubins on disk, as OPWRIGHT_CACHE_DIR says
};

struct Cubin {
    std::string code;
    std::string log;  // of the compiler: registers and spills of each kernel; empty where it came from the disk
};

// Errors: no compiler here (where it was looked for); the source does not compile (the log).
Result<Cubin> compile(const std::string& source, const CompileOptions& o);

// What compiles here: "NVRTC 13.0 (/usr/local/cuda/lib64/libnvrtc.so.13)", "nvcc (/usr/bin/nvcc)"; empty where nothing
// does. OPWRIGHT_NVRTC names the library to use, "none" leaves NVRTC out.
std::string compiler_name();

}  // namespace opwright::target::cuda
