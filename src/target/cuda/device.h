// One GPU: what it is, its memory (pooled), streams, events and loaded kernels. Everything is ordered by one stream of
// the caller's; nothing here synchronises or allocates unless it says so.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "target/cuda/driver.h"

namespace opwright::target::cuda {

struct DeviceInfo {
    std::string name;          // "NVIDIA H200"
    int major = 0, minor = 0;  // compute capability
    int multiprocessors = 0;
    int64_t memory_bytes = 0, l2_bytes = 0;
    double clock_hz = 0;   // at most
    int threads = 0;       // that a multiprocessor can hold
    int shared_bytes = 0;  // that one block may have, opted in
    int driver = 0;        // 13000: CUDA 13.0
    // "sm_90a" where the generation has instructions of its own (9.0 and later), else "sm_80".
    std::string arch() const;
};

class Stream;

// Device memory that goes back to its pool with the last owner, while earlier kernels that use it may still be queued:
// the next user's work follows on the same stream, or waits for that stream.
class Memory {
public:
    DevicePointer address() const { return address_; }
    size_t bytes() const { return bytes_; }

private:
    friend class Device;
    DevicePointer address_ = 0;
    size_t bytes_ = 0;
    std::shared_ptr<void> keep_;
};

class Stream {
public:
    ~Stream();
    Stream(const Stream&) = delete;
    CUstream_st* handle() const { return handle_; }
    // Waits for all work so far. Error: a kernel failed; `what` names whose.
    Status wait(const std::string& what) const;

private:
    friend class Device;
    Stream() = default;
    CUstream_st* handle_ = nullptr;
};

class Event {
public:
    ~Event();
    Event(const Event&) = delete;
    Status record(const Stream& s) const;
    // Milliseconds on the device from `start` to this; waits for both.
    Result<double> since(const Event& start) const;

private:
    friend class Device;
    Event() = default;
    CUevent_st* handle_ = nullptr;
};

class Module;

// A kernel of a loaded module.
struct Function {
    CUfunc_st* handle = nullptr;
    std::shared_ptr<Module> module;
    int registers = 0, shared_bytes = 0, local_bytes = 0;  // a thread's registers and spills, a block's static memory
};

struct LaunchShape {
    unsigned blocks = 1, threads = 1, shared_bytes = 0;  // dynamic shared memory
    bool awaits = false;  // the kernel waits itself for the one ahead of it: it may start before that one has ended
};

class Device {
public:
    // The GPU that OPWRIGHT_CUDA_DEVICE numbers (0). Error: no driver, no GPU, and why.
    static Result<Device*> get();
    // Makes the GPU current for the calling thread; every other function here expects that.
    Status enter() const;

    const DeviceInfo& info() const { return info_; }
    // At least `bytes`, aligned to 256, for work on `stream`; without one, for whoever waits before it lets go. `what`
    // names whose memory it is, for the message when there is none left. The pool keeps at most a quarter of the
    // device's memory for later.
    Result<Memory> allocate(size_t bytes, const std::string& what, std::shared_ptr<Stream> stream = nullptr);
    // Gives unused blocks of the pool back to the driver; waits for the device.
    void trim();

    Result<std::shared_ptr<Stream>> stream();
    Result<std::shared_ptr<Event>> event();
    // Loads a cubin. `what` names the operator.
    Result<std::shared_ptr<Module>> load(const std::string& cubin, const std::string& what);
    // A kernel of the module; allows it `dynamic_shared` bytes. Error: more than a block may have.
    Result<Function> function(const std::shared_ptr<Module>& m, const std::string& name, int dynamic_shared);

    // Blocks of this shape that a multiprocessor holds at once.
    int resident_blocks(const Function& f, const LaunchShape& shape) const;
    // Clusters of this shape that the device holds at once, of a kernel whose blocks go in clusters; 0: not known.
    int resident_clusters(const Function& f, const LaunchShape& shape) const;

    Status upload(DevicePointer to, const void* from, size_t bytes, const Stream& s, const std::string& what) const;
    Status download(void* to, DevicePointer from, size_t bytes, const Stream& s, const std::string& what) const;
    Status copy(DevicePointer to, DevicePointer from, size_t bytes, const Stream& s, const std::string& what) const;
    Status fill(DevicePointer to, unsigned char value, size_t bytes, const Stream& s, const std::string& what) const;
    // `arguments[i]` points at the value of parameter i.
    Status launch(const Function& f, const LaunchShape& shape, void** arguments, const Stream& s,
                  const std::string& what) const;

    const Driver& api() const { return *driver_; }

private:
    Device() = default;
    static Result<Device*> open();
    struct Pool;
    const Driver* driver_ = nullptr;
    CUctx_st* context_ = nullptr;
    DeviceInfo info_;
    std::shared_ptr<Pool> pool_;
};

}  // namespace opwright::target::cuda
