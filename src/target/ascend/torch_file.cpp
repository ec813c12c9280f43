#include "target/ascend/torch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "target/ascend/project.h"

namespace opwright::target::ascend {
using namespace math;

namespace {
const char* torch_type(DType t) {
    switch (t) {
        case DType::Bool: return "at::kBool";
        case DType::I8: return "at::kChar";
        case DType::I16: return "at::kShort";
        case DType::I32: return "at::kInt";
        case DType::I64: return "at::kLong";
        case DType::U8: return "at::kByte";
        case DType::U16: return "at::kUInt16";
        case DType::U32: return "at::kUInt32";
        case DType::U64: return "at::kUInt64";
        case DType::F16: return "at::kHalf";
        case DType::BF16: return "at::kBFloat16";
        case DType::F32: return "at::kFloat";
        case DType::F64: return "at::kDouble";
    }
    return "";
}
std::string host_sym(const Program& m, const Names& names, const Sym& s) {
    Helpers unused;
    Scalar scalar(m, names, unused);
    scalar.sizes.clear();
    scalar.host = true;
    return scalar.sym(s);
}
}  // namespace

std::string torch_file(const Operator& op, const Program& p) {
    const Program& m = op.plans[0].program;
    if (std::any_of(m.tensors.begin(), m.tensors.end(), [](auto& t) { return t.role == Role::Constant; })) return "";
    const Names names(m);
    const std::string type = upper_camel(op.name);
    std::string schema, parameters, checks, sizes, calls, results, returned;
    const auto join = [](std::string& list, const std::string& text) { list += (list.empty() ? "" : ", ") + text; };
    std::vector<bool> known(op.fields.size());
    std::set<std::pair<TensorId, size_t>> defining;  // dims that sizes are read from
    for (size_t i = 0; i < m.inputs.size(); ++i) {
        const std::string& n = names.tensor(m.inputs[i]);
        const TensorInfo& t = m.tensors[m.inputs[i]];
        join(schema, "Tensor " + n);
        join(parameters, "const at::Tensor &" + n);
        checks += fmt::format(
            "    TORCH_CHECK({0}.scalar_type() == {1} && {0}.dim() == {2} && {0}.is_contiguous(),\n            \"{3}: "
            "{0} "
            "must be a contiguous tensor of {4} with {2} dim{5}\");\n",
            n, torch_type(t.dtype), t.shape.size(), op.name, name(t.dtype), t.shape.size() == 1 ? "" : "s");
        for (size_t d = 0; d < t.shape.size(); ++d)
            for (size_t k = 0; k < op.symbols.size(); ++k)
                if (!known[k] && t.shape[d].kind() == SymKind::Symbol && t.shape[d].symbol_name() == op.symbols[k]) {
                    known[k] = true;
                    defining.emplace(m.inputs[i], d);
                    sizes += fmt::format("    const int64_t {} = {}.size({});\n", op.fields[k], n, d);
                }
        calls += fmt::format("static_cast<uint8_t *>({}.data_ptr()), ", n);
    }
    for (size_t k = 0; k < op.fields.size(); ++k)
        if (!known[k]) {
            join(schema, "int " + op.fields[k]);
            join(parameters, "int64_t " + op.fields[k]);
        }
    // Every other dim is what the sizes say.
    std::string shapes;
    for (TensorId x : m.inputs) {
        const TensorInfo& t = m.tensors[x];
        for (size_t d = 0; d < t.shape.size(); ++d)
            if (!defining.count({x, d}))
                shapes +=
                fmt::format("    TORCH_CHECK({0}.size({1}) == {2}, \"{3}: dim {1} of {0} does not fit the others\");\n",
                            names.tensor(x), d, host_sym(m, names, t.shape[d]), op.name);
    }
    if (m.inputs.empty()) return "";
    const std::string& first = names.tensor(m.inputs[0]);
    for (TensorId y : m.outputs) {
        const std::string& n = names.tensor(y);
        std::string dims;
        for (const Sym& s : m.tensors[y].shape) join(dims, host_sym(m, names, s));
        results += fmt::format("    at::Tensor {} = at::empty({{{}}}, {}.options().dtype({}));\n", n, dims, first,
                               torch_type(m.tensors[y].dtype));
        calls += fmt::format("static_cast<uint8_t *>({}.data_ptr()), ", n);
        join(returned, n);
    }
    std::string arguments;
    for (const std::string& f : op.fields) arguments += f + ", ";
    if (has_workspace(op)) {
        std::string list;
        for (const std::string& f : op.fields) join(list, f);
        results += fmt::format(
            "    at::Tensor workspace = at::empty({{{}WorkspaceBytes({})}}, {}.options().dtype(at::kByte));\n", type,
            list, first);
        calls += "static_cast<uint8_t *>(workspace.data_ptr()), ";
    }
    calls += arguments;
    if (has_faults(op)) {
        results += fmt::format("    at::Tensor faults = at::zeros({{CORES}}, {}.options().dtype(at::kInt));\n", first);
        calls += "static_cast<uint8_t *>(faults.data_ptr()), ";
    }
    const bool many = m.outputs.size() > 1;
    std::string tuple;
    for (size_t i = 0; i < m.outputs.size(); ++i) join(tuple, "at::Tensor");
    const std::string result = many ? "std::tuple<" + tuple + ">" : "at::Tensor";
    std::string schema_result;
    for (size_t i = 0; i < m.outputs.size(); ++i) join(schema_result, "Tensor");
    if (many) schema_result = "(" + schema_result + ")";
    std::string r = fmt::format(
        "// {0} as torch.ops.opwright.{0}, for tensors on an NPU. Build it with {0}.asc into one library that is "
        "linked\n"
        "// against torch and torch_npu, and load that: torch.ops.load_library(\"lib{0}_torch.so\").\n"
        "#include <torch/library.h>\n\n#include \"torch_npu/csrc/core/npu/NPUStream.h\"\n\n{1};\n",
        op.name, launch_signature(op, "void *stream"));
    if (has_workspace(op)) r += fmt::format("int64_t {}WorkspaceBytes({});\n", type, size_parameters(op));
    r += "\nnamespace {\n\nconstexpr int64_t CORES = 48;  // vector cores of Atlas A2\n\n";
    r += fmt::format("{} {}({})\n{{\n{}{}{}{}", result, lower_camel(op.name), parameters, checks, sizes, shapes,
                     results);
    r += "    // The tasks that torch has queued for this stream go before.\n"
         "    void *stream = c10_npu::getCurrentNPUStream().stream(true);\n";
    r += fmt::format("    {}({}CORES, stream);\n", type, calls);
    if (has_faults(op))
        r += fmt::format(
            "    TORCH_CHECK(faults.eq(0).all().item<bool>(), \"{}: an index lies outside its tensor\");\n", op.name);
    r += many ? fmt::format("    return {{{}}};\n}}\n", returned) : fmt::format("    return {};\n}}\n", returned);
    r += fmt::format(
        "\n}}  // namespace\n\nTORCH_LIBRARY_FRAGMENT(opwright, m)\n{{\n    m.def(\"{0}({1}) -> {2}\");\n}}\n\n"
        "TORCH_LIBRARY_IMPL(opwright, PrivateUse1, m)\n{{\n    m.impl(\"{0}\", &{3});\n}}\n",
        op.name, schema, schema_result, lower_camel(op.name));
    (void)p;
    return r;
}

}  // namespace opwright::target::ascend
