// The device behind the API: global memory with its owners, cores with their unified buffer and clocks, and the launch.
//
// Every core runs on its own stack, up to the next SyncAll, one after the other. Instructions take effect at once, in
// program order; what their pipes would not have kept in that order is found by vector clocks: each pipe knows of each
// other pipe the last instruction that is surely done (it learns by flags, queues and barriers), and each 32-byte block
// of the unified buffer remembers who wrote and who read it last.
#pragma once
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

#include "types.h"

namespace ascend_sim {

inline constexpr uint32_t kUbBytes = 184 * 1024;  // of 192 KB; the last 8 KB are reserved for the Ascend C library
inline constexpr uint32_t kBlock = 32, kRepeat = 256;
inline constexpr int kPipes = 7;
inline constexpr int kMaxVectorCores = 50, kMaxCubeCores = 25, kMaxBuffers = 64, kMaxAlive = 8;
inline const char* pipe_name(int p) {
    static const char* const names[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX"};
    return names[p];
}

// Where in the kernel's source an instruction stands.
struct At {
    const char* file;
    int line;
    At(const char* f = __builtin_FILE(), int l = __builtin_LINE()) : file(f), line(l) {}
};

// A finding. `rule` is a short fixed name, for tests; `text` is a sentence.
struct Finding {
    std::string rule, text;
};
struct Hazard : std::runtime_error {
    Finding finding;
    explicit Hazard(Finding f) : std::runtime_error(f.text), finding(std::move(f)) {}
};

// The argument that names a buffer, as it is written at that place of the source: "inQueueX" of
// pipe.InitBuffer(inQueueX, 2, n). Empty where the source cannot be read.
inline std::string first_argument(const At& at, const std::string& call) {
    std::ifstream in(at.file);
    std::string line;
    for (int i = 0; i < at.line && std::getline(in, line);) ++i;
    const size_t open = line.find(call + "(");
    if (open == std::string::npos) return {};
    const size_t begin = open + call.size() + 1, end = line.find_first_of(",)", begin);
    return end == std::string::npos ? std::string() : line.substr(begin, end - begin);
}

enum class BufferState : uint8_t { Free, Occupied, Enqueued, Dequeued, Plain };
inline const char* state_name(BufferState s) {
    static const char* const names[] = {"free", "allocated", "enqueued", "dequeued", "plain"};
    return names[static_cast<int>(s)];
}

struct Clock {
    uint32_t of[kPipes] = {};
    void join(const Clock& o) {
        for (int p = 0; p < kPipes; ++p) of[p] = std::max(of[p], o.of[p]);
    }
};

// One buffer of the unified buffer: of a queue, or a TBuf.
struct Buffer {
    At made;
    int position = 0, index = 0;
    uint32_t address = 0, bytes = 0, generation = 0;
    BufferState state = BufferState::Plain;
    Clock filled, freed;  // what the producer and the consumer had done when they passed it on
    std::string name() const {
        std::string n = first_argument(made, "InitBuffer");
        if (n.empty()) n = "buffer made at line " + std::to_string(made.line);
        return state == BufferState::Plain ? n : n + "[" + std::to_string(index) + "]";
    }
};

struct Shadow {  // of 32 bytes of the unified buffer
    uint32_t written = 0, read[kPipes] = {};
    const char* writer = nullptr;
    int line = 0;
    uint8_t pipe = 0;
};

struct GmShadow {  // of one byte of global memory that a kernel may write
    uint32_t written = 0, read = 0;
    int16_t writer = -1, reader = -1;  // core; -2: several
    uint8_t write_pipe = 0, read_pipe = 0;
    bool defined = false, atomic = false;
};
struct Gm {
    std::string name;
    uint8_t* data = nullptr;
    uint64_t bytes = 0;
    std::vector<GmShadow> shadow;  // empty: read only
};

class Device;

struct Core {
    int id = 0;
    Device* device = nullptr;
    Clock clock[kPipes];
    std::vector<uint8_t> ub = std::vector<uint8_t>(kUbBytes, 0xff);
    std::vector<uint8_t> defined = std::vector<uint8_t>(kUbBytes);
    std::vector<Shadow> shadow = std::vector<Shadow>(kUbBytes / kBlock);
    std::deque<Buffer> buffers;
    uint32_t used = 0;
    int alive[16] = {};
    std::map<int, Clock> flags;  // set and not yet waited for, by event and id
    int atomic = 0;              // SetAtomicAdd is on
    bool dirty_cache = false;    // scalar writes to global memory that no DataCacheCleanAndInvalid has written back
    std::vector<Finding> findings;
    std::unique_ptr<char[]> stack;
    ucontext_t context{};
    bool done = false;

    void reset(int core, Device* d) {
        id = core;
        device = d;
        for (Clock& c : clock) c = {};
        // No instruction reaches beyond the buffers of the kernel before.
        std::fill_n(ub.begin(), used, 0xff);  // NaN as a float: what was never written shows in results too
        std::fill_n(defined.begin(), used, 0);
        std::fill_n(shadow.begin(), used / kBlock, Shadow{});
        buffers.clear();
        used = 0;
        std::fill(std::begin(alive), std::end(alive), 0);
        flags.clear();
        atomic = 0;
        dirty_cache = false;
        findings.clear();
        done = false;
    }
};

inline thread_local Core* g_core = nullptr;

// Global memory and the run of one kernel. Use: add() every buffer, then launch() or launch_mix().
class Device {
public:
    // `writable` buffers count as undefined until the kernel writes them, unless `defined`.
    void add(std::string name, void* data, uint64_t bytes, bool writable, bool defined = false) {
        Gm g{std::move(name), static_cast<uint8_t*>(data), bytes, {}};
        if (writable) g.shadow.resize(bytes);
        if (defined)
            for (GmShadow& s : g.shadow) s.defined = true;
        gm_.push_back(std::move(g));
    }
    // Runs `kernel` (a call of the kernel function) on that many vector cores; what went wrong, the first finding of
    // each core. Empty: nothing.
    std::vector<Finding> launch(int blocks, const std::function<void()>& kernel) {
        if (blocks < 1 || blocks > 65535) return {{"launch", "a launch of " + std::to_string(blocks) + " blocks"}};
        return run(blocks, 1, kernel);
    }
    // A __mix__(1, 2) kernel: one cube core and two vector cores a block. The kernel's vector side runs here.
    std::vector<Finding> launch_mix(int blocks, const std::function<void()>& kernel) {
        return run(2 * blocks, 2, kernel);
    }

    Gm* find(const void* p, uint64_t bytes) {
        const auto* a = static_cast<const uint8_t*>(p);
        for (Gm& g : gm_)
            if (a >= g.data && a + bytes <= g.data + g.bytes) return &g;
        return nullptr;
    }
    // The buffer that p lies in or just behind, for messages.
    Gm* near(const void* p) {
        const auto* a = static_cast<const uint8_t*>(p);
        for (Gm& g : gm_)
            if (a >= g.data && a <= g.data + g.bytes) return &g;
        return nullptr;
    }
    int cores() const { return cores_; }
    int sub_blocks() const { return sub_blocks_; }
    // Returns when every core has come here; what the cores wrote is then visible to all.
    void sync_all() {
        ++waiting_;
        Core* self = g_core;
        swapcontext(&self->context, &main_);
        g_core = self;
    }

private:
    static void entry() {
        Core* c = g_core;
        try {
            (*c->device->kernel_)();
            for (auto& [key, clock] : c->flags) {
                (void)clock;
                c->findings.push_back({"flag", "core " + std::to_string(c->id) + ": event " + std::to_string(key >> 8) +
                                                   " id " + std::to_string(key & 255) +
                                                   " is set and never waited for"});
            }
            if (c->dirty_cache)
                c->findings.push_back({"cache", "core " + std::to_string(c->id) +
                                                    ": values written by GlobalTensor::SetValue are still in the data "
                                                    "cache at the end; call DataCacheCleanAndInvalid"});
        } catch (const Hazard& h) { c->findings.insert(c->findings.begin(), h.finding); }
        c->done = true;
        Device* d = c->device;
        swapcontext(&c->context, &d->main_);
    }

    std::vector<Finding> run(int cores, int sub_blocks, const std::function<void()>& kernel) {
        kernel_ = &kernel;
        cores_ = cores;
        sub_blocks_ = sub_blocks;
        static thread_local std::vector<std::unique_ptr<Core>> pool;
        while (static_cast<int>(pool.size()) < cores) pool.push_back(std::make_unique<Core>());
        constexpr size_t kStack = 256 * 1024;
        for (int i = 0; i < cores; ++i) {
            Core& c = *pool[i];
            c.reset(i, this);
            if (!c.stack) c.stack.reset(new char[kStack]);
            getcontext(&c.context);
            c.context.uc_stack.ss_sp = c.stack.get();
            c.context.uc_stack.ss_size = kStack;
            c.context.uc_link = nullptr;
            makecontext(&c.context, &Device::entry, 0);
        }
        for (int left = cores; left > 0;) {
            waiting_ = 0;
            left = 0;
            int finished = 0;
            for (int i = 0; i < cores; ++i) {
                if (pool[i]->done) {
                    ++finished;
                    continue;
                }
                g_core = pool[i].get();
                swapcontext(&main_, &pool[i]->context);
                left += !pool[i]->done;
                finished += pool[i]->done;
            }
            const bool failed =
                std::any_of(pool.begin(), pool.begin() + cores, [](auto& c) { return !c->findings.empty(); });
            if (left > 0 && finished > 0 && !failed)
                pool[0]->findings.push_back({"sync_all", "core 0: " + std::to_string(finished) + " of " +
                                                             std::to_string(cores) +
                                                             " cores ended while the others wait in SyncAll"});
            if (left > 0 && finished > 0) break;
            for (Gm& g : gm_)  // all that happened before is ordered before all that follows
                for (GmShadow& s : g.shadow) s.writer = s.reader = -1, s.written = s.read = 0;
        }
        g_core = nullptr;
        std::vector<Finding> r;
        for (int i = 0; i < cores; ++i) r.insert(r.end(), pool[i]->findings.begin(), pool[i]->findings.end());
        return r;
    }

    std::vector<Gm> gm_;
    const std::function<void()>* kernel_ = nullptr;
    int cores_ = 1, sub_blocks_ = 1, waiting_ = 0;
    ucontext_t main_{};
};

}  // namespace ascend_sim
