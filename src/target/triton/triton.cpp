#include "target/triton/triton.h"

#include <fmt/format.h>

#include <algorithm>

#include "target/triton/module.h"
#include "target/triton/worker.h"

namespace opwright::target::triton {

namespace {
class TritonTarget : public Target {
public:
    std::string_view name() const override { return "triton"; }
    std::string_view about() const override { return "Triton kernels in one Python file, with the function to call"; }
    Result<Emission> emit(const math::Program& p, const EmitOptions& o) const override {
        OPW_TRY(Module m, write_module(p, o));
        Emission e;
        e.files.push_back({m.function + ".py", std::move(m.text)});
        e.facts = std::move(m.facts);
        return e;
    }
    Result<std::string> level(const math::Program& p, const std::string& level, const EmitOptions& o) const override {
        return write_level(p, level, o);
    }
    std::string cannot_run() const override { return worker_state().problem; }
    std::string runs_on() const override {
        const WorkerState& s = worker_state();
        return (s.device == "cuda" ? "the GPU, " : "Triton's interpreter, ") + s.about;
    }
    Result<std::unique_ptr<Runnable>> build(const math::Program& p, const EmitOptions& o) const override {
        OPW_TRY(Module m, write_module(p, o));
        if (o.edit) o.edit(m.text);
        const bool bf16 =
            std::any_of(p.tensors.begin(), p.tensors.end(), [](const auto& t) { return t.dtype == DType::BF16; });
        if (bf16 && worker_state().device != "cuda")
            return Diagnostic("not run: Triton's interpreter computes bf16 wrongly, and there is no GPU here.");
        return run_module(p, std::move(m));
    }
};
}  // namespace

const Target& triton_target() {
    static const TritonTarget target;
    return target;
}

}  // namespace opwright::target::triton
