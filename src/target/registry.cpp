// The targets, one line each.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "target/ascend/ascend.h"
#include "target/c/c.h"
#include "target/cuda/cuda.h"
#include "target/target.h"
#include "target/triton/triton.h"

namespace opwright::target {

std::span<const Target* const> targets() {
    static const std::vector<const Target*> all = {
        &c::c_target(),
        &cuda::cuda_target(),
        &ascend::ascend_target(),
        &triton::triton_target(),
    };
    return all;
}

Result<const Target*> find_target(std::string_view name) {
    std::string names;
    for (const Target* t : targets()) {
        if (t->name() == name) return t;
        names += fmt::format("{}{}", names.empty() ? "" : ", ", t->name());
    }
    return Diagnostic(fmt::format("There is no target \"{}\".", name), {}, fmt::format("The targets are {}.", names));
}

Result<double> clocked(Runnable& kernel, const math::SymValues& sizes, const std::vector<Tensor>& inputs,
                       std::vector<Tensor>& outputs, double budget) {
    using Clock = std::chrono::steady_clock;
    const auto since = [](Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); };
    const auto begin = Clock::now();
    double least = 1e300;
    do {
        const auto t = Clock::now();
        OPW_CHECK(kernel.run(sizes, inputs, outputs));
        least = std::min(least, since(t));
    } while (since(begin) < budget);
    return least;
}

}  // namespace opwright::target
