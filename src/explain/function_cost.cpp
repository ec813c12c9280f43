#include "explain/function_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>

#include "lang/library.h"
#include "runtime/thread_pool.h"
#include "target/cpu/cpu.h"

namespace opwright::explain {
namespace {

Result<double> measure(math::Fn f) {
    constexpr int64_t kElements = 2048;
    const math::FnInfo& i = math::info(f);
    const std::string call = i.arity == 1   ? fmt::format("{}(x[n])", i.name)
                             : i.op.empty() ? fmt::format("{}(x[n], z[n])", i.name)
                                            : fmt::format("x[n] {} z[n]", i.op);
    lang::Library library;
    OPW_CHECK(library.add(
        std::make_shared<Source>(Source{"measured", fmt::format("op f(x[n], z[n]) -> y[n]:\n    y[n] = {}{}\n", call,
                                                                i.arity == 1 ? " + z[n]" : "")})));
    const lang::Argument argument{DType::F32, {math::Sym(kElements)}, true};
    OPW_TRY(const math::Program p, library.elaborate("f", {argument, argument}, {}));
    const target::cpu::Request request{.program = &p, .constant_inputs = {false, false}};
    OPW_TRY(const target::cpu::KernelRef kernel, target::cpu::compile(std::span(&request, 1), {})[0]);
    Tensor x(DType::F32, {kElements}), z(DType::F32, {kElements}), y(DType::F32, {kElements});
    for (int64_t k = 0; k < kElements; ++k) {  // inside the domain of every function
        x.as<float>()[k] = 0.05f + 0.9f * static_cast<float>(k) / kElements;
        z.as<float>()[k] = 0.25f;
    }
    const void* in[] = {x.data(), z.data()};
    void* out[] = {y.data()};
    Tensor workspace(DType::U8, {std::max<int64_t>(kernel->workspace_bytes({}), 1)});
    runtime::ThreadPool one(1);
    using Clock = std::chrono::steady_clock;
    double best = 1e300;
    const auto begin = Clock::now();
    for (int round = 0; round < 20 || Clock::now() - begin < std::chrono::milliseconds(5); ++round) {
        const auto start = Clock::now();
        for (int k = 0; k < 4; ++k) OPW_CHECK(kernel->run({in, out, {}, workspace.data()}, one));
        best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count() / 4);
    }
    return best / kElements;
}
}  // namespace

Result<double> function_seconds(math::Fn f) {
    static std::mutex mutex;
    static std::map<math::Fn, double> known;
    const std::lock_guard lock(mutex);
    if (const auto it = known.find(f); it != known.end()) return it->second;
    OPW_TRY(const double s, measure(f));
    return known[f] = s;
}

}  // namespace opwright::explain
