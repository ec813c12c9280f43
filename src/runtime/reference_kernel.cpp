#include "runtime/reference_kernel.h"

#include <cstring>

#include "derive/reference.h"

namespace opwright::runtime {
namespace {

class ReferenceKernel final : public target::cpu::Kernel {
public:
    explicit ReferenceKernel(const math::Program& p) : p_(p), symbols_(p.symbols()), packed_(p.inputs.size()) {}

    int64_t workspace_bytes(std::span<const int64_t>) const override { return 0; }

    Status run(const target::cpu::Launch& l, ThreadPool&) const override {
        math::SymValues values;
        for (size_t i = 0; i < symbols_.size(); ++i) values[symbols_[i]] = l.symbols[i];
        std::vector<Tensor> inputs;
        for (size_t i = 0; i < p_.inputs.size(); ++i) {
            const math::TensorInfo& t = p_.tensors[p_.inputs[i]];
            OPW_TRY(Shape s, shape(t, values));
            inputs.push_back(Tensor::wrap(t.dtype, std::move(s), const_cast<void*>(l.inputs[i])));
        }
        OPW_TRY(const auto results, derive::reference(p_, inputs, values));
        for (size_t i = 0; i < p_.outputs.size(); ++i) {
            const math::TensorInfo& t = p_.tensors[p_.outputs[i]];
            const Tensor& v = results[i].value;
            if (v.dtype() == t.dtype) {
                if (v.bytes()) std::memcpy(l.outputs[i], v.data(), v.bytes());
                continue;
            }
            Tensor out = Tensor::wrap(t.dtype, v.shape(), l.outputs[i]);
            for (int64_t k = 0; k < v.size(); ++k) out.set(k, v.get(k));
        }
        return ok_status();
    }

    bool pack_constants(std::span<const void* const>, ThreadPool&) override { return false; }
    const std::vector<bool>& packed() const override { return packed_; }
    std::string text(const std::string&) const override { return ""; }
    std::string schedule_summary() const override { return "interpreted in fp64"; }

private:
    static Result<Shape> shape(const math::TensorInfo& t, const math::SymValues& values) {
        Shape s;
        for (const math::Sym& d : t.shape) {
            const auto v = math::evaluate(d, values);
            if (!v || *v < 0) return Diagnostic("The extent " + d.str() + " of " + t.name + " has no value at this size.");
            s.push_back(*v);
        }
        return s;
    }

    math::Program p_;
    std::vector<std::string> symbols_;
    std::vector<bool> packed_;
};
}  // namespace

target::cpu::KernelRef reference_kernel(const math::Program& p) { return std::make_shared<ReferenceKernel>(p); }

}  // namespace opwright::runtime
