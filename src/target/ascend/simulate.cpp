#include "target/ascend/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

namespace opwright::target::ascend {
using namespace math;

namespace {
// Few cores and small tiles, so that small tensors have several tasks a core, ragged ones among them.
constexpr int64_t kCores = 3, kTile = 64;

std::string elements(const Program& p, TensorId t, const Names& names) {
    Helpers unused;
    Scalar s(p, names, unused);
    s.sizes.clear();
    s.host = true;
    std::vector<std::string> extents;
    for (const Sym& n : p.tensors[t].shape) extents.push_back(s.sym(n));
    return product_of(extents);
}
}  // namespace

std::string driver_text(const Operator& op, const Program&, const std::string& function, const std::string& kernels) {
    // Several operators may share a translation unit: each in a namespace, its kernels without C linkage.
    std::string text = kernels;
    for (const std::string linkage = "extern \"C\" "; text.find(linkage) != std::string::npos;)
        text.erase(text.find(linkage), linkage.size());
    std::string r = fmt::format("#include \"lib/matmul_intf.h\"\nnamespace {0}_space {{\n{1}\n}}\n", function, text);
    r += fmt::format(
        "extern \"C\" int {}(const int64_t* sizes, void* const* in, void* const* out, int64_t cores, int64_t maxTile, "
        "char* message, "
        "int64_t capacity) {{\n    using namespace {}_space;\n    (void)sizes; (void)maxTile; (void)in; (void)out;\n",
        function, function);
    for (size_t i = 0; i < op.fields.size(); ++i)
        r += fmt::format("    const int64_t {} = sizes[{}]; (void){};\n", op.fields[i], i, op.fields[i]);
    std::string arguments;
    for (const std::string& f : op.fields) arguments += f + ", ";
    for (size_t i = 0; i < op.plans.size(); ++i) {
        const Plan& plan = op.plans[i];
        const Program& m = plan.program;
        const Names names(m);
        const std::string condition = plan_condition(op, i);
        r += condition.empty() ? "    {\n" : fmt::format("    if ({}) {{\n", condition);
        r += "        ascend_sim::Device device;\n";
        size_t inputs = 0, outputs = 0;
        for (TensorId t : m.inputs)
            r += fmt::format(
                "        void* const {0} = in[{1}]; device.add(\"{0}\", {0}, ({2}) * sizeof({3}), false);\n",
                names.tensor(t), inputs++, elements(m, t, names), memory_type(m.tensors[t].dtype));
        for (TensorId t = 0; t < m.tensors.size(); ++t)
            if (m.tensors[t].role == Role::Constant)
                r += fmt::format(
                    "        void* const {0} = in[{1}]; device.add(\"{0}\", {0}, ({2}) * sizeof({3}), false);\n",
                    names.tensor(t), inputs++, elements(m, t, names), memory_type(m.tensors[t].dtype));
        for (TensorId t : m.outputs)
            r += fmt::format(
                "        void* const {0} = out[{1}]; device.add(\"{0}\", {0}, ({2}) * sizeof({3}), true);\n",
                names.tensor(t), outputs++, elements(m, t, names), memory_type(m.tensors[t].dtype));
        for (TensorId t : plan.workspace) {
            const std::string type = memory_type(compute_type(m.tensors[t].dtype));
            r += fmt::format(
                "        std::vector<{3}> {0}Memory(({2}) + 1); void* const {0} = {0}Memory.data(); "
                "device.add(\"{0}\", {0}, ({2}) * sizeof({3}), true);\n",
                names.tensor(t), 0, elements(m, t, names), type);
        }
        r += "        std::vector<int32_t> faultMemory(static_cast<size_t>(cores), 0); void* const faults = "
             "faultMemory.data();\n"
             "        device.add(\"faults\", faults, faultMemory.size() * sizeof(int32_t), true);\n        "
             "(void)faults;\n";
        for (const KernelSource& k : plan.kernels) {
            const std::string type = upper_camel(k.name) + "Tiling";
            std::string pass;
            for (TensorId t : k.parameters) pass += fmt::format("(GM_ADDR){}, ", names.tensor(t));
            if (k.faults) pass += "(GM_ADDR)faults, ";
            const std::string tile =
                k.tiled() ? fmt::format(", maxTile < {0} ? maxTile : {0}",
                                        std::min<int64_t>(k.max_tile, k.tile ? k.tile : 4096))
                          : "";
            r += fmt::format(
                "        {{\n            const {} tiling = Make{}({}cores{});\n"
                "            int64_t blocks = tiling.tasks == 0 ? 0 : (tiling.tasks + tiling.tasksPerCore - 1) / "
                "tiling.tasksPerCore;\n"
                "            if ({}) blocks = (blocks + 1) / 2;  // two vector cores a block\n"
                "            if (blocks > 0) {{\n                const auto findings = "
                "device.{}(static_cast<int>(blocks), [&] {{ {}({}tiling); }});\n"
                "                if (!findings.empty()) {{ snprintf(message, static_cast<size_t>(capacity), \"%s: "
                "%s\", findings[0].rule.c_str(), findings[0].text.c_str()); return 2; }}\n"
                "            }}\n        }}\n",
                type, type, arguments, tile, k.mix ? "true" : "false", k.mix ? "launch_mix" : "launch",
                k.name + "_kernel", pass);
        }
        r += "        for (int32_t f : faultMemory) if (f != 0) return 1;\n        return 0;\n    }\n";
    }
    r += "}\n";
    return r;
}

namespace {
using Entry = int (*)(const int64_t*, void* const*, void* const*, int64_t, int64_t, char*, int64_t);

class SimulatedOperator : public Runnable {
public:
    SimulatedOperator(std::shared_ptr<SharedLibrary> library, const std::string& function, const Operator& op,
                      const Program& p)
        : library_(std::move(library)),
          entry_(reinterpret_cast<Entry>(library_->symbol(function))),
          name_(op.name),
          symbols_(op.symbols) {
        const Program& m = op.plans.back().program;
        for (TensorId t = 0; t < m.tensors.size(); ++t)
            if (m.tensors[t].role == Role::Constant) constants_.push_back(m.tensors[t].data);
        (void)p;
    }
    Status run(const SymValues& sizes, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) override {
        std::vector<int64_t> values;
        for (const std::string& s : symbols_) {
            const auto it = sizes.find(s);
            if (it == sizes.end()) return Diagnostic(fmt::format("the size {} is not known", s));
            values.push_back(it->second);
        }
        std::vector<void*> in, out;
        for (const Tensor& t : inputs) in.push_back(const_cast<void*>(t.data()));
        for (const Tensor& t : constants_) in.push_back(const_cast<void*>(t.data()));
        for (Tensor& t : outputs) out.push_back(t.data());
        std::array<char, 1024> message{};
        const int status = entry_(values.data(), in.data(), out.data(), kCores, kTile, message.data(), message.size());
        if (status == 2) return Diagnostic(fmt::format("{}: the simulator reports {}", name_, message.data()));
        if (status == 1)
            return Diagnostic(
                fmt::format("{}: an index that is data lies outside its tensor.", name_), {},
                "Check the values of the index tensor against the extent of the dimension that it indexes.");
        return ok_status();
    }
    Result<double> seconds(const SymValues&, const std::vector<Tensor>&, std::vector<Tensor>&) override {
        return Diagnostic("not timed: the functional simulator models no time");
    }

private:
    std::shared_ptr<SharedLibrary> library_;
    Entry entry_;
    std::string name_;
    std::vector<std::string> symbols_;
    std::vector<Tensor> constants_;
};
}  // namespace

std::unique_ptr<Runnable> make_runnable(std::shared_ptr<SharedLibrary> library, const std::string& function,
                                        const Operator& op, const Program& p) {
    return std::make_unique<SimulatedOperator>(std::move(library), function, op, p);
}

Result<int> run_source(const std::string& path, std::vector<std::string> arguments) {
    std::ifstream in(path);
    if (!in) return Diagnostic(fmt::format("{} can't be read.", path));
    const std::filesystem::path source = std::filesystem::absolute(path);
    std::vector<SourceFile> files = simulator_headers();
    // Messages of the compiler and of the simulator name the person's file.
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    files.push_back({"source.cpp", fmt::format("#line 1 \"{}\"\n{}", source.string(), text)});
    OPW_TRY(const auto library,
            build_shared_library(files, "source.cpp",
                                 {"-std=c++17", "-O1", "-ffp-contract=off", "-I" + source.parent_path().string()}));
    auto* entry = reinterpret_cast<int (*)(int, char**)>(library->symbol("main"));
    if (!entry)
        return Diagnostic(
            fmt::format("{} has no main().", path), {},
            "Write one that registers global memory and launches the kernel: ascend_sim::Device does both.");
    std::vector<char*> pointers{const_cast<char*>(path.c_str())};
    for (std::string& a : arguments) pointers.push_back(a.data());
    pointers.push_back(nullptr);
    return entry(static_cast<int>(pointers.size()) - 1, pointers.data());
}

}  // namespace opwright::target::ascend
