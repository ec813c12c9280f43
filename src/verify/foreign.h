// Other people's kernels as subjects: functions of Python files and of shared libraries, in processes of their own.
#pragma once
#include <string>

#include "verify/operator.h"

namespace opwright::verify {

struct ForeignOptions {
    double seconds = 30;  // of one call; the first one may take longer, for imports and compilers
    double start_seconds = 120;
};

// What --against names: "kernel.py:function" or "lib.so:symbol", told apart by the file's ending.
struct Against {
    std::string file, symbol;
    bool python = false;
    std::string str() const { return file + ":" + symbol; }
};
Result<Against> parse_against(const std::string& text);

// A subject, and where it runs: "numpy 2.4", "torch 2.9 on Triton's interpreter".
struct PythonFunction {
    CompileFor subject;
    std::string about;
    bool interpreted = false;  // by Triton: slow
};
// Calls function(x, w, ..., attribute=value, ...), with the attributes that the example states, with NumPy arrays, or
// with torch tensors where the file imports torch (on the GPU where there is one), and takes the array, or the tuple of
// arrays, that it returns. Interpreter: OPWRIGHT_PYTHON, else python3. Errors: a file or function that is not there; a
// package that the file needs and the interpreter lacks.
Result<PythonFunction> python_function(const Against& a, const ForeignOptions& o);

// Calls int symbol(sizes..., inputs..., outputs...): the signature of what `opwright emit --target c` writes for the
// operator. Sizes are int64_t in the order in which the declaration names them, tensors dense and row-major. Errors: a
// library or symbol that is not there.
Result<CompileFor> c_function(const Against& a, const lang::Library& library, const std::string& op,
                              const ForeignOptions& o);
// "int softmax(int64_t n, const float* x, float* y)"; for the help of people.
Result<std::string> c_signature(const lang::Library& library, const std::string& op, const std::string& symbol);

}  // namespace opwright::verify
