// What a few runs did when, thread by thread, for viewers of Chrome's trace events (Perfetto, chrome://tracing).
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "explain/profile.h"

namespace opwright::explain {

// Seconds since the first run began.
struct Span {
    int run = 0;
    int thread = 0;                    // of the pool; 0 is the caller's
    graph::NodeId node = graph::kNone; // kNone: a whole run
    double begin = 0, end = 0;
    int64_t tasks = 0;                 // of a thread's span: how many of the kernel's it did
};

struct Timeline {
    int threads = 1;
    std::vector<Span> runs, kernels;   // on the caller's thread
    std::vector<Span> work;            // of each thread, inside kernels
};

// Runs `runs` times after one run to warm up, watching every thread. On the cpu; the runs of a device are in
// Profile::device. Errors as for Executable::run.
Result<Timeline> timeline(const runtime::Executable& e, std::span<const Tensor> inputs, runtime::ThreadPool& pool, int runs);

// {"traceEvents": [...]} with a row a thread; on a device a row for its stream and one for the host's launches. Kernels
// carry what the profile knows of them as arguments. `t` may be null where the profile is a device's.
nlohmann::json trace_events(const Profile& p, const Timeline* t);

}  // namespace opwright::explain
