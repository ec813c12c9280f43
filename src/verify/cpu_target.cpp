#include "verify/cpu_target.h"

#include <fmt/format.h>

#include "math/localise.h"
#include "runtime/thread_pool.h"
#include "target/widths.h"

namespace opwright::verify {

Compile cpu_target(const target::cpu::Options& o, runtime::ThreadPool& pool) {
    return [o, &pool](const math::Program& p) -> Result<Compiled> {
        auto local = std::make_shared<math::Localised>(math::localise(p));
        const target::cpu::Request request{.program = &local->program,
                                           .constant_inputs = std::vector<bool>(p.inputs.size())};
        auto kernels = target::cpu::compile(std::span(&request, 1), o);
        OPW_TRY(target::cpu::KernelRef kernel, std::move(kernels[0]));
        const auto run = [local, kernel, &pool](const math::SymValues& sizes, const std::vector<Tensor>& inputs,
                                                std::vector<Tensor>& outputs) -> Status {
            std::vector<int64_t> symbols;
            for (const math::Sym& s : local->values) {
                const auto v = evaluate(s, sizes);
                if (!v) return Diagnostic(fmt::format("the size {} is not known", s.str()));
                symbols.push_back(*v);
            }
            std::vector<const void*> in;
            std::vector<void*> out;
            for (const Tensor& t : inputs) in.push_back(t.data());
            for (Tensor& t : outputs) out.push_back(t.data());
            Tensor workspace(DType::U8, {std::max<int64_t>(kernel->workspace_bytes(symbols), 1)});
            return kernel->run({in, out, symbols, workspace.data()}, pool);
        };
        return Compiled(run, target::cpu_widths(local->program, o));
    };
}

}  // namespace opwright::verify
