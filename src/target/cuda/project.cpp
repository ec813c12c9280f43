#include "target/cuda/project.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <set>

#include "emit/c_source.h"
#include "emit/names.h"
#include "math/widen.h"
#include "target/cuda/launch.h"
#include "target/cuda/text.h"

namespace opwright::target::cuda {
using namespace math;

std::string host_type(DType t) {
    switch (t) {
        case DType::F16: return "__half";
        case DType::BF16: return "__nv_bfloat16";
        case DType::F32: return "float";
        case DType::F64: return "double";
        case DType::Bool: return "bool";
        case DType::I8: return "int8_t";
        case DType::I16: return "int16_t";
        case DType::I32: return "int32_t";
        case DType::I64: return "int64_t";
        case DType::U8: return "uint8_t";
        case DType::U16: return "uint16_t";
        case DType::U32: return "uint32_t";
        case DType::U64: return "uint64_t";
    }
    return "";
}

std::string host_text(const Sym& s, const std::map<std::string, std::string>& names, const NamedSyms& known) {
    for (const auto& [sym, name] : known)
        if (sym == s) return name;
    const auto operand = [&](size_t i) {
        const Sym& o = s.operands()[i];
        const bool atom = o.kind() == SymKind::Const ? o.lower() >= 0
                                                     : o.kind() == SymKind::Symbol || o.kind() == SymKind::FloorDiv ||
                                                           o.kind() == SymKind::Min || o.kind() == SymKind::Max;
        const std::string t = host_text(o, names, known);
        return atom && t.find('/') == std::string::npos ? t : "(" + t + ")";
    };
    const auto joined = [&](const char* with) {
        std::string r;
        for (size_t i = 0; i < s.operands().size(); ++i) r += (i ? with : "") + operand(i);
        return r;
    };
    const auto function = [&](const char* name) {
        std::string r = host_text(s.operands()[0], names, known);
        for (size_t i = 1; i < s.operands().size(); ++i)
            r = fmt::format("{}({}, {})", name, r, host_text(s.operands()[i], names, known));
        return r;
    };
    switch (s.kind()) {
        case SymKind::Const: return fmt::format("{}", *s.constant());
        case SymKind::Symbol: return names.at(s.symbol_name());
        case SymKind::Add: {  // "+ -1 * a" reads as a subtraction
            std::string r;
            for (const Sym& o : s.operands()) {
                std::string t = host_text(o, names, known);
                if (o.kind() == SymKind::Select || o.kind() == SymKind::Less || o.kind() == SymKind::Equal)
                    t = "(" + t + ")";
                if (t.starts_with("-1 * "))
                    r += (r.empty() ? "-" : " - ") + t.substr(5);
                else if (t.starts_with("-"))
                    r += (r.empty() ? "-" : " - ") + t.substr(1);
                else
                    r += (r.empty() ? "" : " + ") + t;
            }
            return r;
        }
        case SymKind::Mul: return joined(" * ");
        case SymKind::FloorDiv:
        case SymKind::Mod: {
            const bool division = s.kind() == SymKind::FloorDiv;
            const Sym &a = s.operands()[0], &b = s.operands()[1];
            if (a.lower() >= 0 && b.lower() > 0) return operand(0) + (division ? " / " : " % ") + operand(1);
            return fmt::format("{}({}, {})", division ? "floor_div" : "floor_mod", host_text(a, names, known),
                               host_text(b, names, known));
        }
        case SymKind::Min: return function("std::min<int64_t>");
        case SymKind::Max: return function("std::max<int64_t>");
        case SymKind::Less: return joined(" < ");
        case SymKind::Equal: return joined(" == ");
        case SymKind::Select: return fmt::format("{} ? {} : {}", operand(0), operand(1), operand(2));
    }
    return "";
}

std::vector<std::pair<Sym, Sym>> plain_bounds(const Program& p) {
    std::vector<std::pair<Sym, Sym>> r;
    const auto access = [&](TensorId t, const std::vector<ExprId>& at) {
        for (size_t d = 0; d < p.tensors[t].shape.size(); ++d) {
            if (p.expr(at[d]).kind != ExprKind::Index) continue;
            std::pair<Sym, Sym> bound{p.vars[p.expr(at[d]).ref].extent, p.tensors[t].shape[d]};
            if ((bound.second - bound.first).lower() >= 0) continue;
            if (std::find(r.begin(), r.end(), bound) == r.end()) r.push_back(std::move(bound));
        }
    };
    for (ExprId e = 0; e < p.expr_count(); ++e)
        if (p.expr(e).kind == ExprKind::Load && p.expr(e).outside == Outside::Error)
            access(p.expr(e).ref, p.expr(e).args);
    for (const Equation& q : p.equations)
        if (q.outside == Outside::Error) access(q.lhs, q.at);
    return r;
}

namespace {
constexpr const char* kReserved =
    "alignas alignof and asm auto bool break case catch char class const constexpr continue default delete do double "
    "dynamic_cast else enum explicit extern false float for friend goto if inline int long mutable namespace new not "
    "nullptr operator or private protected public register return short signed sizeof static struct switch template "
    "this throw true try typedef typename union unsigned using virtual void volatile while xor main stream workspace "
    "fault error wide std blocks INDEX ROWS LARGE_TENSORS";

constexpr const char* kFloorDiv =
    "// The quotient rounded toward minus infinity.\n"
    "inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }\n";
constexpr const char* kFloorMod =
    "// The remainder of that quotient.\n"
    "inline int64_t floor_mod(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }\n";

std::string lower_case(std::string s) {
    for (char& c : s) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return s;
}

class Project {
public:
    Project(const Program& source, const CudaProgram& lowered, const EmitOptions& o) : p_(source), l_(lowered), o_(o) {
        emit::Names& names = names_;
        n_.name = emit::Names::identifier(source.name);
        for (const auto& [macro, value] : lowered.macros) names.take(macro);
        n_.symbols = source.symbols();
        for (const std::string& s : n_.symbols) n_.sizes[s] = names.take(emit::Names::extent(s));
        for (TensorId t : source.inputs) n_.tensors[t] = names.take(source.tensors[t].name);
        for (TensorId t : source.outputs) n_.tensors[t] = names.take(source.tensors[t].name);
        n_.workspace = !lowered.workspace.empty();
        n_.faults = !lowered.faults.empty();
        // The lowered program has tensors of its own; inputs and outputs keep their order.
        for (size_t i = 0; i < source.inputs.size(); ++i)
            pointer_[lowered.program.inputs[i]] = n_.tensors[source.inputs[i]];
        for (size_t i = 0; i < source.outputs.size(); ++i)
            pointer_[lowered.program.outputs[i]] = n_.tensors[source.outputs[i]];
        for (TensorId t : lowered.workspace) pointer_[t] = names.take(lowered.program.tensors[t].name);
        for (TensorId t : lowered.tables) pointer_[t] = names.take(lowered.program.tensors[t].name + "_table");
    }

    Result<std::vector<SourceFile>> run() {
        std::vector<SourceFile> files{{n_.name + "_launch.h", header()},
                                      {n_.name + "_launch.cu", launcher()},
                                      {n_.name + "_configured.h", configured()}};
        bool tested = false;
        if (auto wide = widened(p_)) {
            wide->name = n_.name + "_reference";
            OPW_TRY(const emit::CSource reference, emit::write_c(*wide));
            files.push_back({n_.name + "_test.cu", test_file(p_, n_, reference.function, reference.symbols, o_)});
            files.push_back({n_.name + "_reference.c", reference.text});
            tested = true;
        }
        files.push_back({"CMakeLists.txt", cmake(tested)});
        files.push_back({"README.md", readme(tested)});
        return files;
    }

private:
    std::string text(const Sym& s) const { return host_text(s, n_.sizes, known_); }

    // "int64_t M, const float* x, float* y, void* workspace, cudaStream_t stream", broken at the page's width.
    std::string parameters(size_t column) const {
        std::vector<std::string> all;
        for (const std::string& s : n_.symbols) all.push_back("int64_t " + n_.sizes.at(s));
        for (TensorId t : p_.inputs)
            all.push_back(fmt::format("const {}* {}", host_type(p_.tensors[t].dtype), n_.tensors.at(t)));
        for (TensorId t : p_.outputs)
            all.push_back(fmt::format("{}* {}", host_type(p_.tensors[t].dtype), n_.tensors.at(t)));
        if (n_.workspace) all.emplace_back("void* workspace");
        if (n_.faults) all.emplace_back("int* fault");
        all.emplace_back("cudaStream_t stream");
        std::string r;
        const size_t indent = column;
        for (const std::string& s : all) {
            const bool breaks = column + s.size() > 116;
            r += r.empty() ? "" : breaks ? ",\n" + std::string(indent, ' ') : ", ";
            column = breaks ? indent + s.size() : column + s.size() + 2;
            r += s;
        }
        return r;
    }
    std::string size_parameters() const {
        std::string r;
        for (const std::string& s : n_.symbols) r += (r.empty() ? "int64_t " : ", int64_t ") + n_.sizes.at(s);
        return r;
    }
    std::string shape(TensorId t) const {
        std::string r;
        for (const Sym& d : p_.tensors[t].shape) r += (r.empty() ? "" : ", ") + text(d);
        return fmt::format("{}[{}]", n_.tensors.at(t), r);
    }

    std::string header() const {
        std::set<std::string> includes;
        for (const auto& [t, name] : n_.tensors) {
            if (p_.tensors[t].dtype == DType::F16) includes.insert("#include <cuda_fp16.h>\n");
            if (p_.tensors[t].dtype == DType::BF16) includes.insert("#include <cuda_bf16.h>\n");
        }
        includes.insert("#include <cuda_runtime.h>\n");
        Code c;
        c.comment(fmt::format("Launches {} on a GPU.{}", n_.name, p_.doc.empty() ? "" : " " + p_.doc));
        c.raw("#pragma once");
        std::string r = c.take();
        for (const std::string& i : includes) r += i;
        r += "\n#include <cstdint>\n\n";
        if (n_.workspace)
            r += fmt::format(
                "// Bytes of device memory for values that pass from one kernel to the next.\nint64_t "
                "{}_workspace_bytes({});\n\n",
                n_.name, size_parameters());
        std::string shapes;
        for (TensorId t : p_.inputs) shapes += (shapes.empty() ? "" : ", ") + shape(t);
        shapes += " -> ";
        for (size_t i = 0; i < p_.outputs.size(); ++i) shapes += (i ? ", " : "") + shape(p_.outputs[i]);
        Code d;
        d.comment(fmt::format(
            "{}. Pointers are of device memory; tensors are dense and row-major, and outputs overlap nothing. "
            "Does not wait, and allocates nothing. Returns cudaErrorInvalidValue for sizes that the operator "
            "does not have.{}{}",
            shapes,
            n_.workspace ? fmt::format(" `workspace` has {}_workspace_bytes() bytes, aligned to 256.", n_.name) : "",
            n_.faults ? " `fault` points at an int that is 0 before; after it, a code where an index that is data lay "
                        "outside its tensor:"
                      : ""));
        for (size_t i = 0; i < l_.faults.size(); ++i) d.comment(fmt::format("{} means: {}.", i + 1, l_.faults[i]));
        const std::string start = fmt::format("cudaError_t launch_{}(", n_.name);
        return r + d.take() + start + parameters(start.size()) + ");\n";
    }

    // "vector4", "items4_threads128_vector4"; "plain" without macros.
    static std::string space_of(const Variant& v) {
        std::string r;
        for (const auto& [name, value] : v.macros)
            r += fmt::format("{}{}{}", r.empty() ? "" : "_", lower_case(name), value);
        return r.empty() ? "plain" : r;
    }

    // Kernels have C names, so that one in two namespaces needs two.
    std::string configured() const {
        std::set<std::string> kernels;
        for (const Stage& s : l_.stages)
            for (const Variant& v : s.variants) kernels.insert(v.kernel);
        std::string r = fmt::format(
            "// {}.cu for the macros that are set, in a namespace called CONFIGURATION, which its kernels' names end "
            "in. Leaves\n"
            "// none of the macros set, and is included more than once.\n"
            "#define JOINED_NAME(kernel, configuration) kernel##_##configuration\n"
            "#define CONFIGURED(kernel, configuration) JOINED_NAME(kernel, configuration)\n",
            n_.name);
        for (const std::string& k : kernels) r += fmt::format("#define {0} CONFIGURED({0}, CONFIGURATION)\n", k);
        r += fmt::format("namespace CONFIGURATION {{\n#include \"{}.cu\"\n}}\n", n_.name);
        for (const std::string& k : kernels) r += fmt::format("#undef {}\n", k);
        r += "#undef CONFIGURED\n#undef JOINED_NAME\n#undef CONFIGURATION\n";
        for (const auto& [name, value] : l_.macros) r += fmt::format("#undef {}\n", name);
        return r + "#undef ROWS\n";
    }

    std::string launcher() {
        std::vector<const Variant*> spaces;  // one for each choice of macros
        for (const Stage& s : l_.stages)
            for (const Variant& v : s.variants)
                if (std::none_of(spaces.begin(), spaces.end(), [&](auto* o) { return o->macros == v.macros; }))
                    spaces.push_back(&v);
        std::string r = fmt::format(
            "// Chooses a kernel and its geometry by the sizes, as Opwright does when it runs {} itself.\n"
            "#include \"{}_launch.h\"\n\n#include <algorithm>\n\n",
            n_.name, n_.name);
        r += "#ifdef LARGE_TENSORS  // of 2^31 elements and more\n#define INDEX long long\n#endif\n\n";
        r += "// The kernels, once for each choice of their macros.\n";
        for (const Variant* v : spaces) {
            r += fmt::format("#define CONFIGURATION {}\n", space_of(*v));
            for (const auto& [name, value] : v->macros) r += fmt::format("#define {} {}\n", name, value);
            r += fmt::format("#include \"{}_configured.h\"\n\n", n_.name);
        }
        const std::string bytes = workspace_text();  // a function before that of the body
        const std::string body = body_text();
        std::string helpers;
        const bool remainder = (body + bytes).find("floor_mod(") != std::string::npos;
        if (remainder || (body + bytes).find("floor_div(") != std::string::npos) helpers += kFloorDiv;
        if (remainder) helpers += kFloorMod;
        helpers +=
            "// Memory, as the pointer that a kernel takes.\nstruct Pointer {\n    const void* to;\n    template "
            "<class T>\n"
            "    operator T*() const {\n        return static_cast<T*>(const_cast<void*>(to));\n    }\n};\n";
        if (body.find("aligned(") != std::string::npos)
            helpers +=
                "inline bool aligned(const void* p, int bytes) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; "
                "}\n";
        if (body.find("resident_clusters(") != std::string::npos)
            helpers +=
                "// Clusters of a kernel that run at once; 0 where it was compiled for a GPU without them.\n"
                "template <class Kernel>\n"
                "int resident_clusters(Kernel kernel, int cluster, int threads) {\n"
                "    cudaFuncAttributes attributes{};\n"
                "    cudaFuncGetAttributes(&attributes, kernel);\n"
                "    if (attributes.requiredClusterWidth != cluster) return 0;\n"
                "    cudaLaunchConfig_t config{};\n"
                "    config.gridDim = dim3(cluster);\n"
                "    config.blockDim = dim3(threads);\n"
                "    int n = 0;\n"
                "    return cudaOccupancyMaxActiveClusters(&n, kernel, &config) == cudaSuccess ? n : 0;\n}\n";
        helpers +=
            "// Kernels walk over their grid, so that any number of blocks is right.\n"
            "inline unsigned grid(int64_t blocks, int threads) {\n"
            "    const int64_t most = sizeof(plain_index) == 4 ? (int64_t{1} << 26) / threads : INT32_MAX;\n"
            "    return static_cast<unsigned>(std::max<int64_t>(1, std::min(blocks, most)));\n}\n";
        r += "namespace {\n";
        r += fmt::format("using plain_index = {}::Index;\n", space_of(*spaces.front()));
        r += tables_text() + helpers + "}  // namespace\n\n";
        if (n_.workspace)
            r += fmt::format("int64_t {}_workspace_bytes({}) {{\n{}}}\n\n", n_.name, size_parameters(), bytes);
        const std::string start = fmt::format("cudaError_t launch_{}(", n_.name);
        return r + start + parameters(start.size()) + ") {\n" + body + "}\n";
    }

    std::string tables_text() const {
        std::string r;
        for (TensorId t : l_.tables) {
            const Tensor& data = l_.program.tensors[t].data;
            std::string values;
            for (int64_t i = 0; i < data.size(); ++i) {
                const DType d = data.dtype();
                values += i == 0 ? "" : i % 12 == 0 ? ",\n    " : ", ";
                values += d == DType::F16 || d == DType::BF16 ? fmt::format("{}", data.as<uint16_t>()[i])
                          : is_float(d)                       ? fmt::format("{:.17g}", data.get(i))
                                                              : fmt::format("{}", data.get_int(i));
            }
            const bool half = data.dtype() == DType::F16 || data.dtype() == DType::BF16;
            r += fmt::format("__device__ const {} {}[] = {{\n    {}}};\n", half ? "uint16_t" : host_type(data.dtype()),
                             pointer_.at(t), data.size() ? values : "0");
        }
        return r;
    }
    std::string bytes_of(TensorId t) const {
        const TensorInfo& info = l_.program.tensors[t];
        std::string r = fmt::format("{}", size_of(compute_type(info.dtype)));
        for (const Sym& d : info.shape) {
            const std::string e = text(d);
            r += e.find(' ') == std::string::npos ? " * " + e : " * (" + e + ")";
        }
        return fmt::format("({} + 255) / 256 * 256", r);
    }
    std::string workspace_text() const {
        std::string r;
        for (TensorId t : l_.workspace) r += fmt::format("{}{}", r.empty() ? "" : " +\n           ", bytes_of(t));
        return fmt::format("    return {};\n", r);
    }

    std::string condition(const Condition& c) const {
        switch (c.kind) {
            case Condition::Kind::Clusters: return "true";  // asked of the kernel: resident_clusters

            case Condition::Kind::Multiple: {
                const std::string t = text(c.value);
                return fmt::format("{} % {} == 0", t.find(' ') == std::string::npos ? t : "(" + t + ")", c.number);
            }
            case Condition::Kind::AtMost: return fmt::format("{} <= {}", text(c.value), c.number);
            case Condition::Kind::AtLeast: return fmt::format("{} >= {}", text(c.value), c.number);
            case Condition::Kind::Aligned: {
                const bool temporary =
                    std::find(l_.workspace.begin(), l_.workspace.end(), c.tensor) != l_.workspace.end();
                return temporary ? "true" : fmt::format("aligned({}, {})", pointer_.at(c.tensor), c.number);
            }
        }
        return "";
    }
    std::string all_of(const std::vector<Condition>& when) const {
        std::string r;
        for (const Condition& c : when) {
            const std::string t = condition(c);
            if (t != "true") r += (r.empty() ? "" : " && ") + t;
        }
        return r.empty() ? "true" : r;
    }

    std::string body_text() {
        Code c;
        c.set_depth(1);
        for (const Requirement& q : p_.requirements) {
            if (q.value.lower() > 0) continue;
            const std::string t = text(q.value);
            c.line("if (!({})) return cudaErrorInvalidValue;  // {}", t, q.message);
        }
        std::string sizes;
        for (TensorId t : p_.outputs)
            for (const Sym& d : p_.tensors[t].shape)
                if (d.kind() != SymKind::Symbol && d.lower() < 0)
                    sizes += fmt::format("{}{} < 0", sizes.empty() ? "" : " || ", text(d));
        for (const std::string& s : n_.symbols)
            sizes += fmt::format("{}{} < 0", sizes.empty() ? "" : " || ", n_.sizes.at(s));
        if (!sizes.empty()) c.line("if ({}) return cudaErrorInvalidValue;", sizes);
        for (const auto& [extent, dim] : plain_bounds(p_))
            c.line("if ({} > {}) return cudaErrorInvalidValue;", text(extent), text(dim));
        for (const auto& [elements, points] : l_.folded)
            c.line("if ({} == 0 && {} > 0) return cudaErrorInvalidValue;  // nothing to read", product_text(elements),
                   product_text(points));
        name_sizes(c);
        std::string wide;
        std::set<std::string> spans;
        for (const Sym& s : l_.spans)
            if (!s.is_const() || *s.constant() >= kNarrow) spans.insert(text(s));
        for (const std::string& s : spans) wide += fmt::format("{}{} >= {}", wide.empty() ? "" : " || ", s, kNarrow);
        if (!wide.empty()) {
            c.line("// Positions do not fit an int: build with LARGE_TENSORS.");
            c.line("if (sizeof(plain_index) == 4 && ({}))", wide);
            c.line("    return cudaErrorInvalidValue;");
        }
        std::string offset = "0";
        if (!l_.workspace.empty()) c.line("char* next = static_cast<char*>(workspace);");
        for (size_t i = 0; i < l_.workspace.size(); ++i) {
            const TensorId t = l_.workspace[i];
            c.line("void* const {} = next;", pointer_.at(t));
            if (i + 1 < l_.workspace.size()) c.line("next += {};", bytes_of(t));
        }
        if (!l_.tables.empty()) c.line("cudaError_t found = cudaSuccess;");
        for (TensorId t : l_.tables) {
            c.line("void* {}_address = nullptr;", pointer_.at(t));
            c.line("found = cudaGetSymbolAddress(&{0}_address, {0});", pointer_.at(t));
            c.line("if (found != cudaSuccess) return found;");
        }
        for (const Stage& s : l_.stages) stage(c, s);
        c.line("return cudaGetLastError();");
        return c.take();
    }
    std::string product_text(const Sym& s) const {
        const std::string t = text(s);
        return s.kind() == SymKind::Mul || t.find(' ') == std::string::npos ? t : "(" + t + ")";
    }

    void stage(Code& c, const Stage& s) const {
        if (!s.about.empty()) c.comment(s.about);
        std::string when = all_of(s.when);
        if (s.points.lower() <= 0)
            when = (when == "true" ? "" : when + " && ") + fmt::format("{} > 0", product_text(s.points));
        const bool always = when == "true";
        if (!always) c.open("if ({})", when);
        bool first = true;
        for (const Variant& v : s.variants) {
            std::string holds = all_of(v.when);
            if (v.cluster > 1)
                holds = fmt::format("{0} &&\n{1}resident_clusters(\n{1}{2},\n{1}{3}, {4}) > 0", holds,
                                    std::string(4 * static_cast<size_t>(c.depth()) + 4, ' '),
                                    kernel_of(v), v.cluster, v.threads);
            const bool last = &v == &s.variants.back() || holds == "true";
            const bool alone = first && last;
            if (!alone) {
                if (first)
                    c.open("if ({})", holds);
                else {
                    c.set_depth(c.depth() - 1);
                    if (last)
                        c.open("}} else");
                    else
                        c.open("}} else if ({})", holds);
                }
            }
            call(c, v);
            first = false;
            if (last) {
                if (!alone) c.close();
                break;
            }
        }
        if (!always) c.close();
    }
    std::string kernel_of(const Variant& v) const { return fmt::format("{0}::{1}_{0}", space_of(v), v.kernel); }
    void call(Code& c, const Variant& v) const {
        const std::string kernel = kernel_of(v);
        std::string arguments;
        for (const Parameter& a : v.parameters) {
            std::string t;
            switch (a.kind) {
                case Parameter::Kind::Tensor: {
                    const bool table = std::find(l_.tables.begin(), l_.tables.end(), a.tensor) != l_.tables.end();
                    t = fmt::format("Pointer{{{}{}}}", pointer_.at(a.tensor), table ? "_address" : "");
                    break;
                }
                case Parameter::Kind::Size: t = text(a.size); break;
                case Parameter::Kind::Fault: t = "fault"; break;
            }
            arguments += (arguments.empty() ? "" : ", ") + t;
        }
        constexpr int64_t kWithoutAsking = 48 << 10;
        if (v.dynamic_shared > kWithoutAsking) {
            c.line("cudaFuncSetAttribute(");
            c.line("    {},", kernel);
            c.line("    cudaFuncAttributeMaxDynamicSharedMemorySize, {});", v.dynamic_shared);
        }
        std::string blocks = text(v.blocks);
        if (v.cluster > 1) {  // as many as run at once: what goes with their columns is loaded once
            c.line("const int64_t resident = resident_clusters(");
            c.line("    {},", kernel);
            c.line("    {}, {});", v.cluster, v.threads);
            blocks = fmt::format("std::min<int64_t>({}, {} * resident)", blocks, v.cluster);
        }
        const std::string geometry =
            fmt::format("<<<grid({}, {}), {}, {}, stream>>>(", blocks, v.threads, v.threads, v.dynamic_shared);
        constexpr size_t kPage = 118;
        if (4 * static_cast<size_t>(c.depth()) + kernel.size() + geometry.size() <= kPage) {
            c.line("{}{}", kernel, geometry);
        } else {
            c.line("{}", kernel);
            c.line("    {}", geometry);
        }
        c.line("    {});", arguments);
    }

    std::string architectures() const {
        if (o_.arch.empty()) return "80 90";
        std::string a = o_.arch;
        return a.starts_with("sm_") ? a.substr(3) : a;
    }
    std::string cmake(bool tested) const {
        std::string list = architectures();
        std::replace(list.begin(), list.end(), ' ', ';');
        std::string r = fmt::format(
            "cmake_minimum_required(VERSION 3.20)\n"
            "if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)\n  set(CMAKE_CUDA_ARCHITECTURES \"{0}\")\nendif()\n"
            "if(NOT CMAKE_BUILD_TYPE)\n  set(CMAKE_BUILD_TYPE Release)\nendif()\n"
            "project({1} LANGUAGES C CXX CUDA)\n"
            "find_package(CUDAToolkit REQUIRED)\n"
            "option(LARGE_TENSORS \"64-bit positions, for tensors of 2^31 elements and more\" OFF)\n\n"
            "# {1}.cu is part of the launcher, which includes it once for each choice of its macros.\n"
            "add_library({1} STATIC {1}_launch.cu)\n"
            "target_include_directories({1} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})\n"
            "target_compile_features({1} PUBLIC cxx_std_17)\n"
            "target_link_libraries({1} PUBLIC CUDA::cudart)\n"
            "if(LARGE_TENSORS)\n  target_compile_definitions({1} PRIVATE LARGE_TENSORS)\nendif()\n",
            list, n_.name);
        if (tested)
            r += fmt::format(
                "\nenable_testing()\nadd_executable({0}_test {0}_test.cu {0}_reference.c)\n"
                "target_link_libraries({0}_test PRIVATE {0} m)\n"
                "add_test(NAME {0} COMMAND {0}_test)\n"
                "set_tests_properties({0} PROPERTIES SKIP_RETURN_CODE 77)  # there is no GPU\n",
                n_.name);
        return r;
    }
    std::string readme(bool tested) const {
        std::string r = fmt::format(
            "# {}\n\n{}\n\n```\n{}```\n\nCUDA C++ kernels for GPUs from compute capability 8.0, written by Opwright; "
            "nothing of it is needed here.\n\n"
            "- `{}.cu`: the kernels, without headers\n- `{}_launch.h`, `{}_launch.cu`, `{}_configured.h`: the function "
            "to call\n",
            p_.name, p_.doc.empty() ? "An operator." : p_.doc, p_.print(), n_.name, n_.name, n_.name, n_.name);
        if (tested)
            r += fmt::format(
                "- `{0}_test.cu`, `{0}_reference.c`: checks the kernels at edge sizes against plain loops in double "
                "precision\n",
                n_.name);
        else
            r += "\nIt takes the bits of a float, so that there is no reference in double precision and no test.\n";
        r += "\n```\ncmake -B build -S .        # -DCMAKE_CUDA_ARCHITECTURES=90 for one GPU generation\ncmake --build "
             "build\n";
        if (tested) r += fmt::format("build/{}_test\n", n_.name);
        return r + "```\n";
    }

    // Expressions that are long and occur often get a variable each, those inside others first.
    void name_sizes(Code& c) {
        std::map<std::string, std::pair<int, Sym>> uses;
        const std::function<void(const Sym&)> count = [&](const Sym& s) {
            if (s.kind() == SymKind::Const || s.kind() == SymKind::Symbol) return;
            auto& use = uses[text(s)];
            ++use.first;
            use.second = s;
            for (const Sym& o : s.operands()) count(o);
        };
        const auto conditions = [&](const std::vector<Condition>& when) {
            for (const Condition& x : when)
                if (x.kind != Condition::Kind::Aligned) count(x.value);
        };
        for (const Stage& s : l_.stages) {
            count(s.points);
            conditions(s.when);
            for (const Variant& v : s.variants) {
                conditions(v.when);
                count(v.blocks);
                for (const Parameter& a : v.parameters)
                    if (a.kind == Parameter::Kind::Size) count(a.size);
            }
        }
        constexpr size_t kLong = 30;
        constexpr int kOften = 3;
        std::vector<std::pair<std::string, Sym>> wanted;
        for (const auto& [t, use] : uses) {
            // Not what is only ever part of one longer expression.
            const auto within = [&, &t = t, &use = use](const auto& o) {
                return o.second.first == use.first && o.first.size() > t.size() && o.first.find(t) != std::string::npos;
            };
            if (t.size() > kLong && use.first >= kOften && std::none_of(uses.begin(), uses.end(), within))
                wanted.emplace_back(t, use.second);
        }
        std::sort(wanted.begin(), wanted.end(), [](auto& a, auto& b) { return a.first.size() < b.first.size(); });
        for (const auto& [t, s] : wanted) {
            const std::string value = text(s), name = names_.take(fmt::format("size_{}", known_.size() + 1));
            c.line("const int64_t {} = {};", name, value);
            known_.emplace_back(s, name);
        }
    }

    const Program& p_;
    const CudaProgram& l_;
    const EmitOptions& o_;
    emit::Names names_{kReserved};
    NamedSyms known_;  // in the launcher
    ProjectNames n_;
    std::map<TensorId, std::string> pointer_;  // by tensor of the lowered program
};
}  // namespace

Result<std::vector<SourceFile>> project(const Program& source, const CudaProgram& lowered, const EmitOptions& o) {
    return Project(source, lowered, o).run();
}

}  // namespace opwright::target::cuda
