#include "cuda_emulated.h"

#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "math/inline.h"
#include "math/unit_dims.h"

namespace opwright::verify {
using namespace math;
using target::cuda::Call;
using target::cuda::CudaProgram;
using target::cuda::LaunchPlan;
using target::cuda::Parameter;
using target::cuda::Variant;

namespace {

// Memory as a device has it: aligned to 256, or to the element only; guard bytes around.
class DeviceCopy {
public:
    DeviceCopy(size_t bytes, bool aligned, size_t element) : bytes_(bytes), memory_(bytes + 3 * 256, 0x5a) {
        const auto address = reinterpret_cast<uintptr_t>(memory_.data());
        begin_ = 512 - address % 256 + (aligned ? 0 : element);
        memory_.resize(begin_ + bytes + 256, 0x5a);
        if (reinterpret_cast<uintptr_t>(memory_.data()) != address) {
            begin_ = 512 - reinterpret_cast<uintptr_t>(memory_.data()) % 256 + (aligned ? 0 : element);
            memory_.resize(begin_ + bytes + 256, 0x5a);
        }
        std::memset(data(), 0xa5, bytes);
    }
    unsigned char* data() { return memory_.data() + begin_; }
    bool damaged() const {
        for (size_t i = 0; i < memory_.size(); ++i)
            if ((i < begin_ || i >= begin_ + bytes_) && memory_[i] != 0x5a) return true;
        return false;
    }

private:
    size_t bytes_, begin_ = 0;
    std::vector<unsigned char> memory_;
};

// The same for all patterns at one tuple of sizes, so that the recorder sees what the run will.
bool aligned_at(const SymValues& sizes) {
    int64_t sum = 0;
    for (auto& [n, v] : sizes) sum += v;
    return sum % 4 != 3;
}
std::string read_file(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
}
std::string replaced(std::string s, const std::string& from, const std::string& to) {
    for (size_t at = 0; (at = s.find(from, at)) != std::string::npos; at += to.size()) s.replace(at, from.size(), to);
    return s;
}
}  // namespace

std::string EmulatedCuda::name_of(const std::string& key, const Variant& v, bool wide) {
    std::string r = key + v.kernel;
    for (auto& [n, value] : v.macros) r += fmt::format(" {}={}", n, value);
    return r + (wide ? " wide" : "");
}

Result<EmulatedCuda::Kept*> EmulatedCuda::keep(const Program& p) {
    const std::string key = p.name + p.canonical();
    auto it = programs_.find(key);
    if (it == programs_.end()) {
        const Program simple = inline_temporaries(drop_unit_variables(p)).program;
        OPW_TRY(CudaProgram lowered,
                target::cuda::lower(simple, options_));
        if (edit_) edit_(lowered.kernels);
        if (edit_helpers_) edit_helpers_(lowered.emulated_helpers);
        it = programs_.emplace(key, Kept{std::make_shared<CudaProgram>(std::move(lowered)), {}}).first;
    }
    return &it->second;
}

Compile EmulatedCuda::recorder() {
    return [this](const Program& p) -> Result<Compiled> {
        OPW_TRY(Kept * kept, keep(p));
        const std::string key = p.name + p.canonical();
        return Compiled(
            [this, kept, key](const SymValues& sizes, const std::vector<Tensor>&, std::vector<Tensor>&) -> Status {
                const bool aligned = aligned_at(sizes);
                OPW_TRY(const LaunchPlan plan,
                        plan_launch(*kept->program, sizes, [&](TensorId, int64_t) { return aligned; }, clusters_));
                for (const Call& c : plan.calls) {
                    kept->macros.emplace(c.variant->macros, plan.wide);
                    entries_.emplace(name_of(key, *c.variant, plan.wide), Entry{});
                }
                return Diagnostic("recorded");
            });
    };
}

Status EmulatedCuda::build(size_t lines) {
    struct File {
        std::string text;
        size_t lines = 0;
        std::vector<std::pair<std::string, std::string>> symbols;  // entry, function
    };
    std::vector<File> files;
    size_t number = 0;
    for (auto& [key, kept] : programs_) {
        const CudaProgram& p = *kept.program;
        const std::string body =
            replaced(replaced(p.emulated_helpers + p.kernels, "extern \"C\" __global__ void", "static void"),
                     "extern __shared__ __align__(128) unsigned char shared[];",
                     "unsigned char* const shared = cuda_emulation::dynamic_shared();");
        for (const auto& [macros, wide] : kept.macros) {
            std::vector<const Variant*> wanted;
            for (const auto& stage : p.stages)
                for (const Variant& v : stage.variants) {
                    const auto e = entries_.find(name_of(key, v, wide));
                    if (v.macros != macros || e == entries_.end() || e->second.built) continue;
                    if (std::any_of(wanted.begin(), wanted.end(), [&](auto* o) { return o->kernel == v.kernel; }))
                        continue;
                    wanted.push_back(&v);
                }
            if (wanted.empty()) continue;
            if (files.empty() || files.back().lines > lines)
                files.push_back({"#include \"cuda_emulation.h\"\n", 0, {}});
            File& f = files.back();
            const std::string space = fmt::format("kernels_{}", number++);
            std::string defines, undefines = "#undef INDEX\n#undef ROWS\n";
            for (auto& [n, v] : macros) defines += fmt::format("#define {} {}\n", n, v);
            for (auto& [n, v] : p.macros) undefines += fmt::format("#undef {}\n", n);
            if (wide) defines += "#define INDEX long long\n";
            f.text += fmt::format("{}namespace {} {{\n{}}}\n{}", defines, space, body, undefines);
            for (const Variant* v : wanted) {
                const std::string function = fmt::format("{}_{}", space, v->kernel);
                f.text += fmt::format(
                    "extern \"C\" __attribute__((visibility(\"default\"))) void {}(void** a, unsigned b, unsigned t, "
                    "unsigned s) {{\n"
                    "    cuda_emulation::launch({}::{}, a, b, t, s, {}, {});\n}}\n",
                    function, space, v->kernel, v->cooperates, v->cluster);
                const std::string entry = name_of(key, *v, wide);
                f.symbols.emplace_back(entry, function);
                entries_[entry].built = true;
            }
            f.lines += static_cast<size_t>(std::count(body.begin(), body.end(), '\n'));
        }
    }
    const std::string header = read_file(OPWRIGHT_SOURCE_DIR "/tests/backend/cuda_emulation.h");
    std::vector<std::optional<Result<std::shared_ptr<target::SharedLibrary>>>> built(files.size());
    std::atomic<size_t> next{0};
    const auto work = [&] {
        for (size_t i; (i = next.fetch_add(1)) < files.size();)
            built[i] = target::build_shared_library(
                {{"cuda_emulation.h", header}, {"kernels.cpp", files[i].text}}, "kernels.cpp",
                {"-std=c++17", "-O1", "-w", "-ffp-contract=off", "-fvisibility=hidden"});
    };
    std::thread other(work);
    work();
    other.join();
    std::optional<Diagnostic> failure;
    for (size_t i = 0; i < files.size(); ++i) {
        if (!built[i]->ok()) {
            failure = built[i]->error();
            continue;
        }
        auto library = std::move(**built[i]);
        for (auto& [entry, function] : files[i].symbols)
            entries_[entry].run = reinterpret_cast<decltype(Entry::run)>(library->symbol(function));
        libraries_.push_back(std::move(library));
    }
    if (failure) return *failure;
    return ok_status();
}

Compile EmulatedCuda::target() {
    return [this](const Program& p) -> Result<Compiled> {
        OPW_TRY(Kept * kept, keep(p));
        const std::string key = p.name + p.canonical();
        return Compiled([this, kept, key](const SymValues& sizes, const std::vector<Tensor>& in,
                                          std::vector<Tensor>& out) { return run(*kept, key, sizes, in, out); });
    };
}

Status EmulatedCuda::run(const Kept& k, const std::string& key, const SymValues& sizes, const std::vector<Tensor>& in,
                         std::vector<Tensor>& out) {
    const CudaProgram& p = *k.program;
    const bool aligned = aligned_at(sizes);
    OPW_TRY(const LaunchPlan plan, plan_launch(p, sizes, [&](TensorId, int64_t) { return aligned; }, clusters_));
    std::map<TensorId, std::unique_ptr<DeviceCopy>> memory;
    const auto place = [&](TensorId t, size_t bytes, DType type, const void* from) {
        auto& m = memory[t];
        m = std::make_unique<DeviceCopy>(bytes, aligned, size_of(type));
        if (from && bytes) std::memcpy(m->data(), from, bytes);
    };
    for (size_t i = 0; i < in.size(); ++i) place(p.program.inputs[i], in[i].bytes(), in[i].dtype(), in[i].data());
    for (size_t i = 0; i < out.size(); ++i) place(p.program.outputs[i], out[i].bytes(), out[i].dtype(), nullptr);
    for (TensorId t : p.tables) {
        const Tensor& data = p.program.tensors[t].data;
        place(t, data.bytes(), data.dtype(), data.data());
    }
    DeviceCopy workspace(static_cast<size_t>(plan.workspace_bytes), true, 4);
    int fault = 0;
    int* fault_pointer = &fault;
    for (const Call& c : plan.calls) {
        const auto entry = entries_.find(name_of(key, *c.variant, plan.wide));
        if (entry == entries_.end() || !entry->second.run)
            return Diagnostic(fmt::format("the variant {} was not recorded", c.variant->kernel));
        std::vector<void*> pointers(c.variant->parameters.size());
        std::vector<int64_t> wide(pointers.size());
        std::vector<int> narrow(pointers.size());
        std::vector<void*> arguments;
        size_t size = 0;
        for (size_t a = 0; a < pointers.size(); ++a) {
            const Parameter& x = c.variant->parameters[a];
            switch (x.kind) {
                case Parameter::Kind::Tensor: {
                    const auto w = std::find(p.workspace.begin(), p.workspace.end(), x.tensor);
                    pointers[a] = w == p.workspace.end()
                                      ? memory.at(x.tensor)->data()
                                      : workspace.data() + plan.workspace[static_cast<size_t>(w - p.workspace.begin())];
                    arguments.push_back(&pointers[a]);
                    break;
                }
                case Parameter::Kind::Size:
                    wide[a] = c.sizes[size];
                    narrow[a] = static_cast<int>(c.sizes[size++]);
                    arguments.push_back(plan.wide ? static_cast<void*>(&wide[a]) : &narrow[a]);
                    break;
                case Parameter::Kind::Fault:
                    pointers[a] = fault_pointer;
                    arguments.push_back(&pointers[a]);
                    break;
            }
        }
        // A few blocks show what many would: kernels walk over the grid.
        const auto cluster = static_cast<unsigned>(c.variant->cluster);
        const unsigned blocks = std::min(c.blocks, cluster > 1 ? 2 * cluster : 3u);
        entry->second.run(arguments.data(), blocks, static_cast<unsigned>(c.variant->threads),
                          static_cast<unsigned>(c.variant->dynamic_shared));
    }
    for (auto& [t, m] : memory)
        if (m->damaged()) return Diagnostic(fmt::format("the kernel wrote outside of {}", p.program.tensors[t].name));
    if (workspace.damaged()) return Diagnostic("the kernel wrote outside of the memory of its temporaries");
    if (fault) return Diagnostic(p.faults[static_cast<size_t>(fault) - 1]);
    for (size_t i = 0; i < out.size(); ++i)
        if (out[i].bytes()) std::memcpy(out[i].data(), memory.at(p.program.outputs[i])->data(), out[i].bytes());
    return ok_status();
}

}  // namespace opwright::verify
