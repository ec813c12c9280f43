// A processor with memory of its own, as the run time drives it: memory, streams, kernels that are prepared once and
// launched many times. A target whose kernels run on one offers it by Target::device().
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "math/program.h"

namespace opwright::target::device {

using Address = uint64_t;

// Given back when the last copy goes.
struct Memory {
    Address address = 0;  // a multiple of kAlignment
    size_t bytes = 0;
    std::shared_ptr<void> keep;
};
inline constexpr int64_t kAlignment = 256;

class Event {
public:
    virtual ~Event() = default;
};

// Work that was recorded, to be given to its stream as one.
class Replay {
public:
    virtual ~Replay() = default;
    virtual Status launch(const std::string& what) = 0;
};

// Work in the order in which it is given. Nothing here waits for the device unless it says so. `what` names the
// operator or the action in messages.
class Stream {
public:
    virtual ~Stream() = default;
    // Error: there is no memory left; says how much was wanted.
    virtual Result<Memory> allocate(size_t bytes, const std::string& what) = 0;
    virtual Status upload(Address to, const void* from, size_t bytes, const std::string& what) = 0;
    virtual Status download(void* to, Address from, size_t bytes, const std::string& what) = 0;
    virtual Status fill(Address to, unsigned char value, size_t bytes, const std::string& what) = 0;
    // Waits for all work so far. Error: some of it failed.
    virtual Status wait(const std::string& what) = 0;

    virtual Result<std::shared_ptr<Event>> event() = 0;
    virtual Status record(Event& e) = 0;
    // Seconds on the device from one event to the other; waits for both.
    virtual Result<double> seconds(const Event& from, const Event& to) = 0;
    // Holds back what follows until `open` is true, for 20 ms at most, so that it is all queued when it starts.
    virtual Status hold(std::shared_ptr<std::atomic<bool>> open) = 0;
    // Between the two, launches are recorded and not run; nothing may be allocated or waited for.
    virtual Status begin_recording(const std::string& what) = 0;
    virtual Result<std::unique_ptr<Replay>> end_recording(const std::string& what) = 0;
};

struct LaunchFacts {
    std::string kernel;  // with what its source was compiled for: "softmax_kernel THREADS=256"
    int64_t blocks = 0;
    int threads = 0, registers = 0, spilled_bytes = 0, shared_bytes = 0;
    double occupancy = 0;  // of the threads that a multiprocessor can hold, how many are there at once
    double waves = 0;      // blocks over those that the device holds at once
};

// A kernel for certain sizes and addresses. Launching it neither allocates nor waits.
class Launch {
public:
    virtual ~Launch() = default;
    virtual Status launch(Stream& s, const std::string& what) = 0;
    virtual std::vector<LaunchFacts> facts() const = 0;
};

class Kernel {
public:
    virtual ~Kernel() = default;
    // Of temporaries, at these sizes.
    virtual Result<int64_t> workspace_bytes(const math::SymValues& sizes) const = 0;
    // `operands`: of the inputs, then the outputs. `fault`: of an int that the kernel sets where an index that is data
    // lies outside its tensor; the caller sets it to 0 before. Compiles and loads what is not there yet.
    virtual Result<std::unique_ptr<Launch>> prepare(const math::SymValues& sizes, const std::vector<Address>& operands,
                                                    Address workspace, Address fault, Stream& s) = 0;
    virtual const std::vector<std::string>& faults() const = 0;  // message of code i + 1
    virtual std::string schedule() const = 0;                    // in words
};

// What the device can do at most, measured.
struct Ceilings {
    std::vector<std::pair<double, double>> copies;  // bytes that two buffers take; bytes per second, read and written
    double flops_f32 = 0, flops_f64 = 0;            // multiply-adds, two operations each, per second
    double flops_half = 0;                          // 16-bit floats in the matrix units, accumulated in f32
    double start_seconds = 0;                       // of a kernel that does nothing
    std::string matrix_unit;                        // "mma.sync"
};

class Device {
public:
    virtual ~Device() = default;
    virtual std::string name() const = 0;  // "NVIDIA H200"
    // Makes the device current for the calling thread, which everything else here expects.
    virtual Status enter() = 0;
    virtual Result<std::shared_ptr<Stream>> stream() = 0;
    // `schedule`: as EmitOptions has it, and whether it is portable.
    virtual Result<std::shared_ptr<Kernel>> build(const math::Program& p, const std::string& schedule, bool portable) = 0;
    virtual Result<Ceilings> measure() = 0;
};

}  // namespace opwright::target::device
