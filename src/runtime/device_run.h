// Runs plans on a device: constants are there from the start, intermediate results stay there, and inputs and outputs
// are all that is copied. What depends on the shapes (memory, launches) is prepared once and kept for the last few
// plans.
#pragma once
#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/executable.h"
#include "runtime/plan.h"

namespace opwright::runtime {

class DeviceRunner {
public:
    // `g` and `steps` outlive it. Uploads the constants. Error: the device has no memory for them.
    static Result<std::unique_ptr<DeviceRunner>> make(target::device::Device& d, const graph::Graph& g,
                                                      const std::vector<Step>& steps);
    ~DeviceRunner();

    // `outputs` lie in the host's memory; those that are copies of other values are left to the caller. Steps whose
    // kernels are the cpu's run there, on copies. `seen` may be null; see Executable::trace.
    // Errors: the device's, naming the operator; an index that is data and lies outside its tensor.
    Status run(const std::shared_ptr<Plan>& plan, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
               ThreadPool& pool, const Executable::Observer* seen);
    // After at least one run() of the plan.
    Result<Timing> measure(const std::shared_ptr<Plan>& plan, std::span<const Tensor> inputs,
                           std::vector<Tensor>& outputs, ThreadPool& pool, int repeats);

private:
    struct Session;
    using SessionRef = std::unique_ptr<Session>;

    DeviceRunner(target::device::Device& d, const graph::Graph& g, const std::vector<Step>& steps);
    Status upload_constants();
    graph::ValueId root(graph::ValueId v) const;
    const Tensor& host_constant(const Plan& p, graph::ValueId v) const;
    Result<SessionRef> session(const std::shared_ptr<Plan>& plan);
    Result<SessionRef> make_session(const std::shared_ptr<Plan>& plan);
    Status prepare_launches(Session& s);
    void give_back(SessionRef s);
    Status send(Session& s, std::span<const Tensor> inputs);
    Status receive(Session& s, std::vector<Tensor>& outputs);
    Status launch(Session& s, size_t i, ThreadPool& pool);
    Status run_on_cpu(Session& s, size_t i, ThreadPool& pool);
    Result<Tensor> fetch(Session& s, graph::ValueId v, target::device::Address at, const std::string& what);
    Status show(Session& s, size_t i, const Executable::Observer& seen);
    Status check_faults(Session& s);
    Status time_steps(Session& s, ThreadPool& pool, int repeats, Timing& t);
    Status time_replay(Session& s, int repeats, DeviceTiming& t);
    Status time_line(Session& s, ThreadPool& pool, int runs, DeviceTiming& t);

    target::device::Device& device_;
    const graph::Graph& g_;
    const std::vector<Step>& steps_;
    const std::string what_;                                      // for messages about all of it
    std::shared_ptr<target::device::Stream> stream_;              // for the constants
    std::map<graph::ValueId, target::device::Memory> constants_;  // by the value that holds them
    std::mutex mutex_;
    std::list<SessionRef> idle_;  // latest first
};

}  // namespace opwright::runtime
