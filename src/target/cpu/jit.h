// From loop programs to callable code: compile_object makes a relocatable object (which the disk cache keeps),
// load_object makes it callable. LLVM stays behind this header.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "loop/program.h"
#include "target/cpu/features.h"

namespace opwright::target::cpu {

// The generated function: runs tasks [task_begin, task_end). `buffers` holds the pointers of Param buffers by argument
// number, `symbols` the values by symbol number, `scratch` at least scratch_bytes(symbols) bytes aligned to 64 (null
// when that is 0), of which the first 8 are 0 or all are as a call of the same job, with the same buffers and symbols,
// left them. *status is set to the code of the first SetError reached while it is 0. Any number of threads may call it at
// once with their own scratch.
using RunFn = void (*)(void* const* buffers, const int64_t* symbols, int64_t task_begin, int64_t task_end, void* scratch,
                       int64_t* status);
using ScratchFn = int64_t (*)(const int64_t* symbols);

struct Entry {
    RunFn run = nullptr;
    ScratchFn scratch_bytes = nullptr;
    explicit operator bool() const { return run != nullptr; }
};

struct Object {
    std::string code;      // a relocatable object file
    std::string ir;        // LLVM IR, when asked for
    std::string assembly;  // when asked for
};

struct CompileOptions {
    bool want_ir = false;
    bool want_assembly = false;
};

// Changes whenever the same program may give other code: part of the key of cached objects.
extern const int kEmitterVersion;
std::string llvm_version();

// Compiles all functions of the program to one object. Safe to call on several threads at once. Fails only where the
// program needs what the processor level lacks; a program that does not verify throws std::logic_error.
Result<Object> compile_object(const loop::Program& program, const Features& features, const CompileOptions& options = {});

// Code in memory; it stays while the module lives.
class Module {
public:
    virtual ~Module() = default;
    // An empty entry when the module has no function of that name.
    virtual Entry entry(std::string_view name) const = 0;
};
using ModuleRef = std::shared_ptr<const Module>;

// Links an object into the process. An object that is damaged or made for another machine is an error.
Result<ModuleRef> load_object(std::string_view code);

// compile_object and load_object with the disk cache between (cache.h). `from_cache` tells which way it went.
Result<ModuleRef> compile(const loop::Program& program, const Features& features = host_features(),
                          bool* from_cache = nullptr);

}  // namespace opwright::target::cpu
