// The ceilings of this machine, measured: what a profile holds an operator's time against.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace opwright::runtime {
class ThreadPool;
}
namespace opwright::target::device {
class Device;
}

namespace opwright::explain {

struct Machine {
    std::string processor;  // the model's name
    std::string level;      // vector level of the generated code: "baseline", "avx2", "avx512"
    int threads = 1;

    // Copying between two buffers that together take `working_set` bytes; bytes read plus bytes written, per second.
    // In rising order; the last one is far larger than the caches.
    struct Copy {
        double working_set = 0, bandwidth = 0;
    };
    std::vector<Copy> copies;
    double assist_seconds = 0;    // what subnormal numbers add to one vector multiply-add of one thread; 0: nothing
    double flops_f32 = 0;         // fused multiply-adds on f32, two operations each, per second
    double dispatch_seconds = 0;  // handing an empty job to all threads: the floor of one kernel's launch
    std::string measured_at;      // UTC, "2026-01-31 12:00:00"
    bool from_cache = false;

    // Of a device with memory of its own: `processor` is its name, and dispatch_seconds the start of an empty kernel.
    bool device = false;
    double flops_f64 = 0;
    double flops_half = 0;    // 16-bit floats in the matrix units, whose instruction `matrix_unit` names
    std::string matrix_unit;

    double copy_bandwidth() const { return copies.empty() ? 0 : copies.back().bandwidth; }  // from and to memory
    // The ceiling for data that take `bytes` in all: of the smallest measured working set that holds them.
    double bandwidth(double bytes) const;
};

// Measures with all threads of the pool, in about half a second, each figure the best of several tries. The best of all
// measurements is kept on disk beside the compiled objects, for this processor, number of threads and version, and is
// what later calls return; `fresh` measures anew and returns what it measured.
// Error: the measuring kernel cannot be compiled.
Result<Machine> measure_machine(runtime::ThreadPool& pool, bool fresh = false);

// What measure_machine found last with so many threads; nullopt where it has not measured here. Reads one small file.
std::optional<Machine> recall_machine(int threads);

// The same of a device, measured once a process. Error: the device's.
Result<Machine> measure_machine(target::device::Device& d);

// "Intel(R) Xeon(R) Processor", from the kernel; "unknown processor" where it does not say.
std::string processor_name();

// Bytes of the largest cache that a processor can use; 0 where the kernel does not say.
double largest_cache();

}  // namespace opwright::explain
