#include "target/ascend/project.h"

#include <fmt/format.h>

#include <algorithm>

#include "target/ascend/test_file.h"
#include "target/ascend/torch_file.h"

namespace opwright::target::ascend {
using namespace math;

namespace {

std::string elements(const Program& p, TensorId t, const Names& names) {
    Helpers unused;
    Scalar s(p, names, unused);
    s.sizes.clear();
    s.host = true;
    std::vector<std::string> extents;
    for (const Sym& n : p.tensors[t].shape) extents.push_back(s.sym(n));
    return product_of(extents);
}
std::string parameters_of(const Program& p, const Names& names, const Operator& op,
                          const std::vector<TensorId>& workspace) {
    std::string r;
    for (TensorId t : p.inputs) r += fmt::format("uint8_t *{}, ", names.tensor(t));
    for (TensorId t = 0; t < p.tensors.size(); ++t)
        if (p.tensors[t].role == Role::Constant) r += fmt::format("uint8_t *{}, ", names.tensor(t));
    for (TensorId t : p.outputs) r += fmt::format("uint8_t *{}, ", names.tensor(t));
    if (!workspace.empty()) r += "uint8_t *workspace, ";
    const std::string sizes = size_parameters(op);
    return r + sizes + (sizes.empty() ? "" : ", ");
}

// Bytes of global memory for results that pass from kernel to kernel.
std::string workspace_function(const Operator& op) {
    std::string r = fmt::format(
        "// Bytes of global memory for results that pass from kernel to kernel.\nint64_t {}WorkspaceBytes({})\n{{\n",
        upper_camel(op.name), size_parameters(op));
    r += "    int64_t bytes = 0;\n";
    for (const Plan& plan : op.plans) {
        const Program& m = plan.program;
        const Names n(m);
        std::string sum;
        for (TensorId t : plan.workspace)
            sum +=
                fmt::format("{}(({}) * static_cast<int64_t>(sizeof({})) + 511) / 512 * 512", sum.empty() ? "" : " + ",
                            elements(m, t, n), memory_type(compute_type(m.tensors[t].dtype)));
        if (sum.empty()) continue;
        r += fmt::format("    bytes = bytes > {0} ? bytes : {0};\n", sum);
    }
    return r + "    return bytes;\n}\n\n";
}
}  // namespace

bool has_workspace(const Operator& op) {
    return std::any_of(op.plans.begin(), op.plans.end(), [](const Plan& x) { return !x.workspace.empty(); });
}

bool has_faults(const Operator& op) {
    return std::any_of(op.plans.begin(), op.plans.end(), [](const Plan& x) {
        return std::any_of(x.kernels.begin(), x.kernels.end(), [](const KernelSource& k) { return k.faults; });
    });
}

std::string launch_signature(const Operator& op, const std::string& where) {
    const Program& p = op.plans[0].program;
    return fmt::format(
        "void {}({}{}int64_t cores, {})", upper_camel(op.name),
        parameters_of(p, Names(p), op, has_workspace(op) ? std::vector<TensorId>{0} : std::vector<TensorId>{}),
        has_faults(op) ? "uint8_t *faults, " : "", where);
}

std::string launch_functions(const Operator& op, bool simulated) {
    std::string r;
    if (has_workspace(op)) r += workspace_function(op);
    if (!simulated) {
        r += "// Pointers are of the device; `cores` are its vector cores (48 on Atlas A2).";
        if (has_faults(op))
            r += "\n// `faults`: one zeroed int32_t a core; nonzero after the launch where an index that is data left "
                 "its "
                 "tensor.";
        r += "\n";
    }
    r += launch_signature(op, simulated ? "ascend_sim::Device &device" : "aclrtStream stream") + "\n{\n";
    for (size_t i = 0; i < op.plans.size(); ++i) {
        const Plan& plan = op.plans[i];
        const Program& m = plan.program;
        const Names n(m);
        const std::string condition = plan_condition(op, i);
        std::string pad = "    ";
        if (op.plans.size() > 1) {
            r += condition.empty() ? "    {  // rows too long to be held\n"
                                   : fmt::format("    if ({}) {{  // rows that fit the unified buffer\n", condition);
            pad = "        ";
        }
        std::string offset = "workspace";
        for (TensorId t : plan.workspace) {
            r += fmt::format("{}uint8_t *{} = {};\n", pad, n.tensor(t), offset);
            offset = fmt::format("{} + (({}) * static_cast<int64_t>(sizeof({})) + 511) / 512 * 512", n.tensor(t),
                                 elements(m, t, n), memory_type(compute_type(m.tensors[t].dtype)));
        }
        std::string arguments;
        for (const std::string& f : op.fields) arguments += f + ", ";
        size_t k_index = 0;
        for (const KernelSource& k : plan.kernels) {
            const std::string tiling = plan.kernels.size() == 1 ? "tiling" : fmt::format("tiling{}", ++k_index);
            const std::string blocks = plan.kernels.size() == 1 ? "blocks" : fmt::format("blocks{}", k_index);
            std::string pass;
            for (TensorId t : k.parameters) pass += n.tensor(t) + ", ";
            if (k.faults) pass += "faults, ";
            const std::string kt = upper_camel(k.name) + "Tiling";
            r += fmt::format("{0}const {1} {2} = Make{1}({3}cores);\n", pad, kt, tiling, arguments);
            r += fmt::format(
                "{0}if ({1}.tasks > 0) {{\n{0}    const auto {2} = static_cast<uint32_t>(({1}.tasks + {1}.tasksPerCore "
                "- 1) / {1}.tasksPerCore);\n",
                pad, tiling, blocks);
            const std::string count = k.mix ? "(" + blocks + " + 1) / 2" : blocks;
            r += simulated ? fmt::format("{0}    Report(device.{5}({2}, [&] {{ {1}({3}{4}); }}));\n{0}}}\n", pad,
                                         k.name + "_kernel", count, pass, tiling, k.mix ? "launch_mix" : "launch")
                           : fmt::format("{0}    {1}<<<{2}, nullptr, stream>>>({3}{4});\n{0}}}\n", pad,
                                         k.name + "_kernel", count, pass, tiling);
        }
        if (op.plans.size() > 1) {
            if (!condition.empty()) r += "        return;\n";
            r += "    }\n";
        }
    }
    return r + "}\n";
}

namespace {
std::string launch_file(const Operator& op) {
    return fmt::format(
               "// Host side of {0}: counts the tilings and launches the kernels, one after the other, on a stream.\n"
               "#include \"acl/acl.h\"\n#include \"{0}_kernel.h\"\n\n",
               op.name) +
           launch_functions(op, false);
}

std::string cmake_file(const Operator& op, bool test, bool torch) {
    std::string r = fmt::format(R"(# {0} for Atlas A2 and A3 (__NPU_ARCH__ 2201). Source CANN's set_env.sh first; then
#   cmake -B build && cmake --build build
cmake_minimum_required(VERSION 3.16)
set(CMAKE_ASC_ARCHITECTURES dav-2201)
find_package(ASC REQUIRED)
project({0} LANGUAGES ASC CXX)

add_library({0} SHARED {0}.asc)
target_include_directories({0} PRIVATE ${{CMAKE_CURRENT_SOURCE_DIR}})
set_target_properties({0} PROPERTIES CXX_STANDARD 17)
)",
                                op.name);
    if (test)
        r += fmt::format(R"(
# The kernels against the declaration: build/{0}_test
add_executable({0}_test {0}_test.cpp)
target_link_libraries({0}_test PRIVATE {0} ascendcl)
set_target_properties({0}_test PROPERTIES CXX_STANDARD 17)
)",
                         op.name);
    if (torch)
        r += fmt::format(R"(
# torch.ops.opwright.{0}: -DTORCH=ON, with -DCMAKE_PREFIX_PATH of torch and -DTORCH_NPU=, the folder of torch_npu
option(TORCH "Build the operator of PyTorch" OFF)
if(TORCH)
    find_package(Torch REQUIRED)
    add_library({0}_torch SHARED {0}_torch.cpp {0}.asc)
    target_include_directories({0}_torch PRIVATE ${{CMAKE_CURRENT_SOURCE_DIR}} ${{TORCH_NPU}}/include)
    target_link_libraries({0}_torch PRIVATE ${{TORCH_LIBRARIES}} ${{TORCH_NPU}}/lib/libtorch_npu.so)
endif()
)",
                         op.name);
    return r;
}

std::string readme(const Operator& op, bool test, bool torch) {
    const Program& p = op.plans[0].program;
    const Names names(p);
    std::string r = fmt::format(
        "# {}\n\n{}\n\nAscend C for the vector cores of Atlas A2 and A3 (`__NPU_ARCH__ == 2201`), emitted by "
        "Opwright.\n\n",
        op.name, p.doc.empty() ? "An operator." : p.doc);
    r += "| Tensor | Elements | Type |\n| --- | --- | --- |\n";
    for (const auto* list : {&p.inputs, &p.outputs})
        for (TensorId t : *list)
            r += fmt::format("| `{}` | {} | {} |\n", names.tensor(t), elements(p, t, names),
                             memory_type(p.tensors[t].dtype));
    r += fmt::format(
        "\n- `{0}_kernel.h`: the kernels, their tilings, and the functions of the host that count them.\n"
        "- `{0}.asc`: the host's launch, `{1}(...)`, with `<<<>>>`.\n- `CMakeLists.txt`: a shared library, with "
        "`find_package(ASC)`.\n",
        op.name, upper_camel(op.name));
    if (test)
        r += fmt::format(
            "- `{0}_test.cpp`: small cases with the results that the declaration gives. `opwright ascend-sim "
            "{0}_test.cpp` runs it on\n  the simulator, `build/{0}_test` on a device.\n",
            op.name);
    if (torch)
        r += fmt::format(
            "- `{0}_torch.cpp`: `torch.ops.opwright.{0}(...)` for tensors on an NPU (CMake's option `TORCH`); not "
            "compiled "
            "here, where\n  there is no torch_npu.\n",
            op.name);
    r += "\nTensors are dense and row-major. The kernels were run on Opwright's functional simulator, with checks of "
         "alignment, "
         "bounds,\nqueues and synchronisation; on a device they have not been run, and no statement of speed is "
         "made.\n\nUnified buffer, in bytes:\n\n";
    for (std::string f : op.facts) {
        const std::string words = ": unified buffer for tiles";
        if (const size_t at = f.find(words); at != std::string::npos) f.replace(at, words.size(), ", tiles");
        r += "- " + f + "\n";
    }
    return r;
}
}  // namespace

std::vector<SourceFile> project_files(const Operator& op, const Program& p, const EmitOptions& o) {
    std::vector<SourceFile> r{{op.name + ".asc", wrapped(launch_file(op))}};
    const std::string test = test_file(op, p, o.sizes), torch = torch_file(op, p);
    if (!test.empty()) r.push_back({op.name + "_test.cpp", wrapped(test)});
    if (!torch.empty()) r.push_back({op.name + "_torch.cpp", wrapped(torch)});
    r.push_back({"CMakeLists.txt", cmake_file(op, !test.empty(), !torch.empty())});
    r.push_back({"README.md", readme(op, !test.empty(), !torch.empty())});
    return r;
}

}  // namespace opwright::target::ascend
