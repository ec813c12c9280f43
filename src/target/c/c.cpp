#include "target/c/c.h"

#include <fmt/format.h>

#include "emit/c_source.h"
#include "target/host_compiler.h"

namespace opwright::target::c {
using namespace math;

namespace {

// A function of one signature for all operators, which calls the kernel: sizes, inputs and outputs by position.
std::string adapter(const Program& p, const emit::CSource& s) {
    std::string arguments;
    const auto argument = [&](const std::string& text) { arguments += (arguments.empty() ? "" : ", ") + text; };
    for (size_t i = 0; i < s.symbols.size(); ++i) argument(fmt::format("sizes[{}]", i));
    for (size_t i = 0; i < p.inputs.size(); ++i) argument(fmt::format("in[{}]", i));
    for (size_t i = 0; i < p.outputs.size(); ++i) argument(fmt::format("out[{}]", i));
    return fmt::format(
        "#include \"kernel.c\"\nint call_kernel(const int64_t* sizes, const void* const* in, void* const* out) {{\n"
        "    (void)sizes; (void)in; (void)out;\n    return {}({});\n}}\n",
        s.function, arguments);
}

class Kernel : public Runnable {
public:
    Kernel(std::shared_ptr<SharedLibrary> library, emit::CSource source)
        : library_(std::move(library)), source_(std::move(source)) {
        call_ = reinterpret_cast<int (*)(const int64_t*, const void* const*, void* const*)>(
            library_->symbol("call_kernel"));
    }
    Status run(const SymValues& sizes, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) override {
        std::vector<int64_t> values;
        for (const std::string& n : source_.symbols) {
            const auto it = sizes.find(n);
            if (it == sizes.end()) return Diagnostic(fmt::format("the size {} is not known", n));
            values.push_back(it->second);
        }
        std::vector<const void*> in;
        std::vector<void*> out;
        for (const Tensor& t : inputs) in.push_back(t.data());
        for (Tensor& t : outputs) out.push_back(t.data());
        const int result = call_(values.data(), in.data(), out.data());
        if (result == 0) return ok_status();
        if (result < 0) return Diagnostic("The kernel found no memory for its intermediate results.");
        return Diagnostic(source_.faults[static_cast<size_t>(result) - 1]);
    }

    Result<double> seconds(const SymValues& sizes, const std::vector<Tensor>& inputs,
                           std::vector<Tensor>& outputs) override {
        return clocked(*this, sizes, inputs, outputs);
    }

private:
    std::shared_ptr<SharedLibrary> library_;
    emit::CSource source_;
    int (*call_)(const int64_t*, const void* const*, void* const*);
};

class CTarget : public Target {
public:
    std::string_view name() const override { return "c"; }
    std::string_view about() const override { return "plain C99, a point at a time: to read, and to run anywhere"; }
    Result<Emission> emit(const Program& p, const EmitOptions& o) const override {
        OPW_TRY(emit::CSource s, emit::write_c(p, o.schedule));
        Emission e;
        e.files.push_back({s.function + ".c", std::move(s.text)});
        return e;
    }
    Result<std::string> level(const Program& p, const std::string& level, const EmitOptions& o) const override {
        return emit::c_level(p, level, o.schedule);
    }
    std::string cannot_run() const override {
        return host_compiler(false).empty() ? "no C compiler (cc, gcc or clang) is on the PATH" : "";
    }
    std::string runs_on() const override { return "this processor"; }
    Result<std::unique_ptr<Runnable>> build(const Program& p, const EmitOptions& o) const override {
        OPW_TRY(emit::CSource s, emit::write_c(p, o.schedule));
        if (o.edit) o.edit(s.text);
        const std::vector<SourceFile> files{{"kernel.c", s.text}, {"adapter.c", adapter(p, s)}};
        // No contraction of products and sums: the source says what is rounded.
        OPW_TRY(auto library, build_shared_library(files, "adapter.c", {"-std=c99", "-O1", "-w", "-ffp-contract=off"}));
        return std::unique_ptr<Runnable>(std::make_unique<Kernel>(std::move(library), std::move(s)));
    }
};
}  // namespace

const Target& c_target() {
    static const CTarget target;
    return target;
}

}  // namespace opwright::target::c
