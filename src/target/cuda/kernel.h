// A CudaProgram on the GPU: compiled as its sizes demand, prepared for sizes and addresses once, launched many times.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "target/cuda/compiler.h"
#include "target/cuda/device.h"
#include "target/cuda/launch.h"

namespace opwright::target::cuda {

// Launches with all they need: functions, arguments, memory for temporaries. Valid for the addresses it was made with;
// launching it neither allocates nor waits.
class Prepared {
public:
    Status launch(const Device& device, const Stream& stream);
    // After the stream was waited for: whether an index that is data lay outside its tensor.
    Status fault(const Device& device, const Stream& stream) const;
    // For people: "softmax<<<32768, 256>>> THREADS=256 VECTOR=4, 40 registers, 0 bytes spilled".
    std::string describe() const;
    // A launch, as it is given to the device.
    struct Step {
        std::string name;  // "softmax<<<32768, 256>>> THREADS=256 VECTOR=4"
        Function function;
        LaunchShape shape;
        std::vector<void*> arguments;
    };
    const std::vector<Step>& steps() const { return steps_; }

private:
    friend class DeviceKernel;
    std::vector<Step> steps_;
    std::vector<std::unique_ptr<int64_t[]>> values_;  // what arguments point at
    Memory workspace_, fault_;
    bool faults_ = false;
    std::shared_ptr<const CudaProgram> program_;
};

// Memory that the caller has for a kernel.
struct Scratch {
    DevicePointer workspace = 0;  // of LaunchPlan::workspace_bytes
    DevicePointer fault = 0;      // of an int, which the caller sets to 0 before the kernel and reads after it
};

class DeviceKernel {
public:
    DeviceKernel(Device& device, std::shared_ptr<const CudaProgram> p, CompileOptions o)
        : device_(device), program_(std::move(p)), options_(std::move(o)) {}

    // `addresses` of inputs, then outputs, in the program's order. Compiles what was not compiled yet. Without
    // `scratch` it allocates its own, and launch() sets the fault to 0.
    Result<std::unique_ptr<Prepared>> prepare(const math::SymValues& sizes, const std::vector<DevicePointer>& addresses,
                                              const Stream& stream, const Scratch* scratch = nullptr);
    const CudaProgram& program() const { return *program_; }

private:
    Result<Function> function(const Variant& v, bool wide);
    Status upload_tables(const Stream& s);

    Device& device_;
    std::shared_ptr<const CudaProgram> program_;
    CompileOptions options_;
    std::mutex mutex_;
    std::map<std::vector<std::string>, std::shared_ptr<Module>> modules_;  // by macros
    std::map<math::TensorId, Memory> tables_;
};

}  // namespace opwright::target::cuda
