#include "runtime/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <new>
#include <sstream>
#include <string>

#include "runtime/wake.h"

namespace opwright::runtime {
namespace {

constexpr uint32_t kOpen = 0x80000000u;  // further workers may join the job
// A caller waits for others to finish what they have begun. A worker waits for the next kernel of the same run, some of
// which are short of work for all threads: one that went to sleep meanwhile is woken late where other processes
// compete.
constexpr auto kCallerSpin = std::chrono::microseconds(30), kWorkerSpin = std::chrono::microseconds(1000);

constexpr size_t kSentAway = 8;  // workers, at most, that are told where to wake: a microsecond or two each

// When the last job for several threads began, and how long a worker that slept took to join one: of all pools.
std::atomic<int64_t> last_shared_job{INT64_MIN / 2}, waking{20000};
// When help was last asked for (helper_nanoseconds), given or not.
std::atomic<int64_t> last_asked{INT64_MIN / 2};

int64_t now_nanoseconds() {
    const auto t = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(t).count();
}

// A worker that slept has joined the job that began last. One late waking counts an eighth.
void record_waking() {
    const int64_t took = std::clamp<int64_t>(now_nanoseconds() - last_shared_job.load(std::memory_order_relaxed), 1000, 200000);
    const int64_t before = waking.load(std::memory_order_relaxed);
    waking.store(before + (took - before) / 8, std::memory_order_relaxed);
}

// The pool and the worker number of the thread that runs a chunk, for nested calls.
thread_local const ThreadPool* current_pool = nullptr;
thread_local int current_worker = 0;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Spins until done() or for about as long as told; returns done().
template <class Done>
bool spin_until(std::chrono::microseconds time, Done done) {
    const auto end = std::chrono::steady_clock::now() + time;
    do {
        for (int i = 0; i < 16; ++i) {
            if (done()) return true;
            pause();
        }
    } while (std::chrono::steady_clock::now() < end);
    return done();
}

std::string read_line(const std::string& path) {
    std::ifstream in(path);
    std::string line;
    std::getline(in, line);
    return line;
}

// Processors granted by the quota files in one folder of the control group tree; infinity where there is none.
double quota_in(const std::string& folder) {
    double quota = 0, period = 0;
    std::string first;
    std::istringstream v2(read_line(folder + "/cpu.max"));  // "QUOTA PERIOD" or "max PERIOD"
    if (v2 >> first >> period && first != "max" && period > 0) return std::atof(first.c_str()) / period;
    std::istringstream q(read_line(folder + "/cpu.cfs_quota_us")), p(read_line(folder + "/cpu.cfs_period_us"));
    if (q >> quota && p >> period && quota > 0 && period > 0) return quota / period;
    return INFINITY;
}

double control_group_quota() {
    double least = std::min(quota_in("/sys/fs/cgroup"), quota_in("/sys/fs/cgroup/cpu"));
    std::ifstream in("/proc/self/cgroup");
    for (std::string line; std::getline(in, line);) {  // "0::/path" or "4:cpu,cpuacct:/path"
        const size_t a = line.find(':'), b = line.find(':', a + 1);
        if (a == std::string::npos || b == std::string::npos) continue;
        const std::string controllers = line.substr(a + 1, b - a - 1);
        if (!controllers.empty() && controllers.find("cpu") == std::string::npos) continue;
        const std::string root = controllers.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu";
        for (std::string path = line.substr(b + 1); path.size() > 1; path.resize(path.rfind('/')))
            least = std::min(least, quota_in(root + path));
    }
    return least;
}

}  // namespace

// Jobs in quick succession wake the workers even where that is late for the job itself: it is in time for the next ones,
// whereas each of them alone would never be worth it.
int64_t helper_nanoseconds() {
    constexpr int64_t kAwake = 1000, kSoon = std::chrono::nanoseconds(kWorkerSpin).count() * 3 / 4;
    const int64_t now = now_nanoseconds();
    const int64_t before = last_asked.exchange(now, std::memory_order_relaxed);
    const int64_t last = std::max(before, last_shared_job.load(std::memory_order_relaxed));
    return now - last < kSoon ? kAwake : waking.load(std::memory_order_relaxed);
}

int available_processors() {
    int processors = static_cast<int>(std::thread::hardware_concurrency());
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) processors = CPU_COUNT(&set);
    const double quota = control_group_quota();
    if (quota < processors) processors = static_cast<int>(std::ceil(quota));
    return std::max(processors, 1);
}

// A vector whose first or last lanes are masked off may reach beyond what it reads. Where that is a page that is not
// there (yet), a processor takes a hundred nanoseconds and more to find that it need not be: so there are pages on both sides.
struct alignas(64) ThreadPool::Scratch {
    static constexpr size_t kBeside = 4096;
    std::atomic<int64_t> next{0};  // of the worker's share of the job
    char* memory = nullptr;
    size_t bytes = 0;
    bool fresh = true;  // nothing has asked for it in this job
    ~Scratch() { release(); }
    void release() {
        if (memory) ::operator delete(memory, std::align_val_t(64));
        memory = nullptr;
    }
    void allocate() {
        memory = static_cast<char*>(::operator new(bytes + 2 * kBeside, std::align_val_t(64)));
        std::memset(memory, 0, kBeside);
        std::memset(memory + kBeside + bytes, 0, kBeside);
    }
};

// Of a worker: whether it sleeps, and the processors that it may use where send_away() has taken one from it.
struct ThreadPool::Sleeper {
    enum State : int { Awake, Asleep, Sent };
    std::atomic<int> state{Awake};
    cpu_set_t allowed;
    void wake() {
        if (state.exchange(Awake) == Sent) pthread_setaffinity_np(pthread_self(), sizeof allowed, &allowed);
    }
};

// Before workers are woken: the system likes to wake a thread on the processor of the one that wakes it, where it waits
// until that one's share of the job is done. Those that sleep may use all others, until they run.
void ThreadPool::send_away() {
    const int here = sched_getcpu();
    if (here < 0) return;
    for (size_t i = 0; i < threads_.size(); ++i) {
        Sleeper& s = *sleepers_[i];
        cpu_set_t set;
        if (s.state.load(std::memory_order_relaxed) != Sleeper::Asleep) continue;
        if (pthread_getaffinity_np(threads_[i].native_handle(), sizeof set, &set) != 0 || !CPU_ISSET(here, &set) ||
            CPU_COUNT(&set) < 2)
            continue;
        s.allowed = set;
        CPU_CLR(here, &set);
        if (pthread_setaffinity_np(threads_[i].native_handle(), sizeof set, &set) != 0) continue;
        int asleep = Sleeper::Asleep;  // a worker that woke by itself meanwhile is given back here what it may use
        if (!s.state.compare_exchange_strong(asleep, Sleeper::Sent))
            pthread_setaffinity_np(threads_[i].native_handle(), sizeof s.allowed, &s.allowed);
    }
}

// Where the share of worker i ends: all have as many indices, or one more.
int64_t ThreadPool::share_end(const Job& job, int i) { return job.count * (i + 1) / job.threads; }

ThreadPool::ThreadPool(int threads) {
    const int processors = available_processors();
    if (threads <= 0) threads = processors;
    // More threads than processors: those that spin would keep others from their work.
    spin_ = threads > processors ? std::chrono::microseconds(0) : kWorkerSpin;
    for (int i = 0; i < threads; ++i) scratch_.push_back(std::make_unique<Scratch>());
    for (int i = 1; i < threads; ++i) sleepers_.push_back(std::make_unique<Sleeper>());
    for (int i = 1; i < threads; ++i) threads_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
    {
        std::lock_guard lock(callers_);
        stop_ = true;
        epoch_.fetch_add(1);
        epoch_.notify_all();
    }
    for (std::thread& t : threads_) t.join();
}

void* ThreadPool::scratch(int worker, size_t bytes) {
    Scratch& s = *scratch_[static_cast<size_t>(worker)];
    if (bytes > s.bytes || !s.memory) {
        s.release();
        s.bytes = std::max({bytes, s.bytes + s.bytes / 2, size_t{4096}});
        s.allocate();
        s.fresh = true;
    }
    char* r = s.memory + Scratch::kBeside;
    if (s.fresh) std::memset(r, 0, sizeof(int64_t));
    s.fresh = false;
    return r;
}

// Each worker begins with a share of its own, the same in every job of as many tasks: what one kernel left in the caches of
// a processor, the next one finds there. Whoever has finished takes from the others' shares. Ranges shrink with what
// remains of a share, down to the grain, so that a slow worker holds up the end little.
void ThreadPool::take_chunks(int worker) {
    const Job job = job_;
    scratch_[static_cast<size_t>(worker)]->fresh = true;
    for (int turn = 0; turn < job.threads; ++turn) {
        const int owner = (worker + turn) % job.threads;
        const int64_t last = share_end(job, owner);
        std::atomic<int64_t>& next = scratch_[static_cast<size_t>(owner)]->next;
        int64_t begin = next.load(std::memory_order_relaxed);
        while (begin < last) {
            const int64_t size = std::max(job.grain, (last - begin) / 2);
            const int64_t end = last - begin - size < job.grain ? last : begin + size;
            if (!next.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
            job.call(job.context, begin, end, worker);
            begin = next.load(std::memory_order_relaxed);
        }
    }
}

void ThreadPool::work(int worker) noexcept {
    current_pool = this;
    current_worker = worker;
    for (bool slept = false;;) {
        const uint32_t epoch = epoch_.load();
        if (stop_.load()) return;
        uint32_t state = state_.load();
        while ((state & kOpen) && !state_.compare_exchange_weak(state, state + 1)) {}
        if (state & kOpen) {
            if (slept) record_waking();
            take_chunks(worker);
            if (state_.fetch_sub(1) == 1) state_.notify_one();  // the last to leave a closed job
        }
        slept = !spin_until(spin_, [&] { return epoch_.load(std::memory_order_relaxed) != epoch; });
        if (!slept) continue;
        Sleeper& sleeper = *sleepers_[static_cast<size_t>(worker - 1)];
        sleeper.state.store(Sleeper::Asleep);
        epoch_.wait(epoch);
        sleeper.wake();
    }
}

// A job's function, with a watcher that is told of each of its ranges.
struct ThreadPool::Watched {
    Call call;
    void* context;
    Watcher* watcher;
    static void run(void* self, int64_t begin, int64_t end, int worker) {
        const auto& w = *static_cast<const Watched*>(self);
        const auto before = std::chrono::steady_clock::now();
        w.call(w.context, begin, end, worker);
        w.watcher->ran(worker, end - begin, before, std::chrono::steady_clock::now());
    }
};

void ThreadPool::run(int64_t count, int64_t grain, Call call, void* context) {
    if (count <= 0) return;
    grain = std::max<int64_t>(grain, 1);
    if (current_pool == this) {  // what the job outside kept in its memory is lost
        Scratch& s = *scratch_[static_cast<size_t>(current_worker)];
        s.fresh = true;
        call(context, 0, count, current_worker);
        s.fresh = true;
        return;
    }

    std::lock_guard lock(callers_);
    Watched watched{call, context, watcher_};
    if (watcher_) call = &Watched::run, context = &watched;
    const ThreadPool* outer_pool = current_pool;
    const int outer_worker = current_worker;
    current_pool = this;
    current_worker = 0;
    const int64_t chunks = std::max<int64_t>(count / grain, 1);  // each share is a grain or more
    if (chunks == 1 || threads_.empty()) {
        scratch_[0]->fresh = true;
        call(context, 0, count, 0);
    } else {
        const int helpers = static_cast<int>(std::min<int64_t>(chunks - 1, static_cast<int64_t>(threads_.size())));
        job_ = {call, context, count, grain, helpers + 1};
        for (int i = 0; i < job_.threads; ++i)
            scratch_[static_cast<size_t>(i)]->next.store(i == 0 ? 0 : share_end(job_, i - 1), std::memory_order_relaxed);
        last_shared_job.store(now_nanoseconds(), std::memory_order_relaxed);
        if (threads_.size() <= kSentAway) send_away();
        state_.store(kOpen);
        epoch_.fetch_add(1);
        if (helpers == static_cast<int>(threads_.size()))
            epoch_.notify_all();
        else
            for (int i = 0; i < helpers; ++i) epoch_.notify_one();
        take_chunks(0);
        uint32_t inside = state_.fetch_and(~kOpen) & ~kOpen;
        if (inside != 0 && !spin_until(kCallerSpin, [&] { return state_.load() == 0; }))
            while ((inside = state_.load()) != 0) state_.wait(inside);
    }
    current_pool = outer_pool;
    current_worker = outer_worker;
}

}  // namespace opwright::runtime
