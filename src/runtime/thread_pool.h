// A fixed pool of threads for the tasks of kernels. The calling thread takes part, so a pool of size 1 has no thread of
// its own. Workers spin for some microseconds after a job, then sleep.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace opwright::runtime {

// Processors that this process may use: its affinity mask, bounded by the CPU quota of its control group; at least 1.
int available_processors();

class ThreadPool {
public:
    // `threads` counts the caller too; 0 stands for available_processors().
    explicit ThreadPool(int threads = 0);
    ~ThreadPool();  // waits for the job that runs
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int size() const { return static_cast<int>(scratch_.size()); }

    // Calls fn(begin, end, worker) over disjoint ranges that cover [0, count), each of at least `grain` indices but the
    // last, with worker in [0, size()). Returns when all are done. fn must not throw. Calls from several threads take
    // turns; a call from inside fn runs whole on the worker that makes it, with that worker's number.
    template <class F>
    void parallel_for(int64_t count, int64_t grain, F&& fn) {
        using Fn = std::remove_reference_t<F>;
        run(count, grain, [](void* f, int64_t begin, int64_t end, int worker) { (*static_cast<Fn*>(f))(begin, end, worker); },
            const_cast<void*>(static_cast<const void*>(&fn)));
    }

    // At least `bytes` of 64-byte aligned memory of that worker, uninitialised; valid until the worker asks for more.
    // To be called by the worker itself (its number as fn received it), or by anyone while no job runs. Within a job it stays as
    // the worker left it; its first 8 bytes are 0 where the worker asks for the first time in a job, or for more than before.
    void* scratch(int worker, size_t bytes);

    // Is told of every range that a worker finished; by that worker, so that a watcher with a list for each needs no lock.
    class Watcher {
    public:
        using Time = std::chrono::steady_clock::time_point;
        virtual ~Watcher() = default;
        virtual void ran(int worker, int64_t count, Time begin, Time end) noexcept = 0;
    };
    // Sets who is told; nullptr: nobody. To be called while no job runs.
    void watch(Watcher* w) { watcher_ = w; }

private:
    using Call = void (*)(void*, int64_t begin, int64_t end, int worker);
    struct Job {
        Call call = nullptr;
        void* context = nullptr;
        int64_t count = 0, grain = 1;
        int threads = 1;
    };
    struct Scratch;
    struct Watched;
    struct Sleeper;

    void run(int64_t count, int64_t grain, Call call, void* context);
    void work(int worker) noexcept;
    void take_chunks(int worker);
    static int64_t share_end(const Job& job, int i);
    void send_away();

    std::vector<std::unique_ptr<Scratch>> scratch_;
    std::vector<std::unique_ptr<Sleeper>> sleepers_;  // by worker but the caller
    std::vector<std::thread> threads_;
    std::chrono::microseconds spin_{0};  // that a worker waits for the next job before it sleeps
    std::mutex callers_;                 // one job at a time
    Watcher* watcher_ = nullptr;
    Job job_;             // written only while no worker has joined
    alignas(64) std::atomic<uint32_t> state_{0};  // kOpen | number of workers inside the job
    alignas(64) std::atomic<uint32_t> epoch_{0};  // changes with every job and at shutdown; workers sleep on it
    std::atomic<bool> stop_{false};
};

}  // namespace opwright::runtime
