// The CPU target's door: Programs in, kernels that run out. All that the runtime sees of it.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "math/program.h"
#include "target/tuned.h"

namespace opwright::runtime {
class ThreadPool;
}
namespace opwright::loop {
class Program;
}

namespace opwright::target::cpu {

struct Options {
    std::string level;        // "", "baseline", "avx2", "avx512": the widest vector unit; "" = what the machine has
    bool cache = true;        // compiled objects on disk
    int compile_threads = 0;  // 0: as many as processors
    std::string schedule;     // of a person, as JSON (schedule::from_json); empty: the default one
    std::shared_ptr<const TunedSource> tuned;  // schedules that won; null, or with `schedule`: the default ones
    std::function<void(loop::Program&)> edit;  // of the loop level before it is compiled: a fault planted by a test
};

// What one call of a kernel needs. Pointers have the element's alignment at least; data are dense and row-major.
struct Launch {
    std::span<const void* const> inputs;  // in the order of the Program; a packed constant's entry may be null
    std::span<void* const> outputs;       // overlap neither an input nor each other
    std::span<const int64_t> symbols;     // values of Program::symbols(), in that order
    void* workspace = nullptr;            // workspace_bytes(symbols) bytes, 64-byte aligned
};

// A packed contraction at given sizes: `m` rows by `n` columns, each a sum of `k` terms, `batch` times.
struct RegisterTile {
    int rows = 0, columns = 0;
    int64_t m = 0, n = 0, k = 0, batch = 1;
    int speed = 1;        // multiply-adds that take as long as one of f32 (schedule::speed_of)
    double computed = 0;  // multiply-adds that the register tiles do, padding included
    double packed = 0;    // elements of factors brought into panels during the run, repeats included
    double wanted() const { return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(batch); }
};
// One pass of a kernel over its threads at given sizes.
struct StageFacts {
    int64_t tasks = 0;
    std::optional<RegisterTile> tile;
};

// How the innermost loop of one equation runs over memory at given sizes.
struct LoopFacts {
    std::string result;          // the tensor that it writes
    int lanes = 1, widest = 1;   // of its vectors, and of those that the processor has for such values
    bool scan = false;           // each step needs the one before
    double points = 0;           // iterations in all
    // A read whose elements do not lie side by side along that loop.
    struct Access {
        std::string tensor, along;        // along: the loop's index
        bool data = false;                // its place is data
        int64_t step = 0;                 // elements from one iteration to the next
        double wanted = 0, fetched = 0;   // bytes: distinct elements, and the cache lines that hold them
    };
    std::vector<Access> strided;
};

class Kernel {
public:
    virtual ~Kernel() = default;
    // Bytes of scratch memory shared by the whole launch (intermediates that leave a loop nest).
    virtual int64_t workspace_bytes(std::span<const int64_t> symbols) const = 0;
    // Errors: an index that is data lies outside its tensor (operator, tensor, position named).
    virtual Status run(const Launch& l, runtime::ThreadPool& pool) const = 0;
    // Brings constant inputs into the layout that the kernel wants, once; `constants[i]` is null for an input that
    // changes from run to run. Returns false where nothing is packed; after true, run() reads the packed copy in place
    // of the inputs that `packed()` marks, whose originals may be freed.
    virtual bool pack_constants(std::span<const void* const> constants, runtime::ThreadPool& pool) = 0;
    virtual const std::vector<bool>& packed() const = 0;
    // For `explain`: schedule | schedule-json | tile | loop | llvm | asm; empty for a level that was not kept (ask with keep_text).
    virtual std::string text(const std::string& level) const = 0;
    // Facts for profiles: FLOPs and bytes come from derive/cost; this says how the kernel is scheduled, in words
    // ("packed contraction 14x32, 2 stages, 16 lanes").
    virtual std::string schedule_summary() const = 0;
    // The stages in order, at these values of the symbols; empty where the kernel has none (the reference).
    virtual std::vector<StageFacts> stages(std::span<const int64_t>) const { return {}; }
    // The loops outside contractions, at these values of the symbols.
    virtual std::vector<LoopFacts> loops(std::span<const int64_t>) const { return {}; }
    // The kernel that serves these values of the symbols, where tuning found several.
    virtual const Kernel& at(std::span<const int64_t>) const { return *this; }
    // "tuned: 1.23x over untuned on 2026-01-31"; empty where the schedule at these values of the symbols is the default one.
    virtual std::string tuned(std::span<const int64_t>) const { return {}; }
};
using KernelRef = std::shared_ptr<Kernel>;

struct Request {
    const math::Program* program = nullptr;  // localised: extents are constants or plain symbols (see math/localise.h)
    std::vector<bool> constant_inputs;       // inputs whose contents never change (weights): may be packed once
    bool keep_text = false;
};

// Compiles many programs at once: equal ones share code, modules are compiled side by side, cached objects are reused.
// The results are in the order of the requests.
std::vector<Result<KernelRef>> compile(std::span<const Request> requests, const Options& o);

}  // namespace opwright::target::cpu
