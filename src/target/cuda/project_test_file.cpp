// The main file of a stand-alone project's test.
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <set>

#include "target/cuda/project.h"
#include "target/cuda/text.h"

namespace opwright::target::cuda {
using namespace math;

namespace {

// Sizes that the operator has, small enough for plain loops: around the widths of packs, warps and tiles, and empty
// ones.
class Sizes {
public:
    Sizes(const Program& p, const std::vector<std::string>& symbols) : p_(p), symbols_(symbols) {}

    std::vector<std::vector<int64_t>> run(const SymValues& wanted) {
        if (symbols_.empty()) return {{}};
        std::vector<int64_t> asked;
        for (const std::string& s : symbols_)
            if (const auto it = wanted.find(s); it != wanted.end()) asked.push_back(it->second);
        if (asked.size() == symbols_.size()) add(asked);
        constexpr int64_t kEdges[] = {1, 2, 3, 4, 7, 8, 31, 32, 33, 64, 65, 127, 128, 130, 257, 1000};
        for (int64_t e : {1, 33, 128}) add(std::vector<int64_t>(symbols_.size(), e));
        std::mt19937_64 random(7);
        for (int i = 0; i < 4000 && found_.size() < 16; ++i) {
            std::vector<int64_t> v;
            // Smaller ones more often where there are many sizes, whose product is bounded.
            const size_t most = i < 2000 ? std::size(kEdges) : 8;
            for (size_t k = 0; k < symbols_.size(); ++k) v.push_back(kEdges[random() % most]);
            add(v);
        }
        for (size_t k = 0; k < symbols_.size() && !found_.empty(); ++k) {
            std::vector<int64_t> v = found_.front();
            v[k] = 0;
            if (add(v)) break;
        }
        return found_;
    }

private:
    bool add(const std::vector<int64_t>& v) {
        if (std::find(found_.begin(), found_.end(), v) != found_.end()) return false;
        SymValues values;
        for (size_t i = 0; i < symbols_.size(); ++i) values[symbols_[i]] = v[i];
        for (const Requirement& q : p_.requirements)
            if (evaluate(q.value, values).value_or(0) == 0) return false;
        for (const auto& [extent, dim] : plain_bounds(p_))
            if (evaluate(extent, values).value_or(0) > evaluate(dim, values).value_or(0)) return false;
        for (const TensorInfo& t : p_.tensors)
            for (const Sym& d : t.shape)
                if (evaluate(d, values).value_or(-1) < 0) return false;
        constexpr double kWork = 3e7;
        std::set<VarId> reduced;
        for (ExprId e = 0; e < p_.expr_count(); ++e)
            for (VarId x : p_.expr(e).vars) reduced.insert(x);
        for (const Equation& q : p_.equations) {
            double work = 1;
            std::set<VarId> all(q.vars.begin(), q.vars.end());
            all.insert(reduced.begin(), reduced.end());
            for (VarId x : all)
                work *= static_cast<double>(std::max<int64_t>(1, evaluate(p_.vars[x].extent, values).value_or(0)));
            if (work > kWork) return false;
        }
        found_.push_back(v);
        return true;
    }

    const Program& p_;
    const std::vector<std::string>& symbols_;
    std::vector<std::vector<int64_t>> found_;
};

// What the elements of integer tensors that serve as indices must stay below, by tensor.
std::map<TensorId, Sym> index_limits(const Program& p) {
    std::map<TensorId, Sym> r;
    const auto limit = [&](ExprId index, const Sym& extent) {
        std::vector<ExprId> open{index};
        while (!open.empty()) {
            const Expr& x = p.expr(open.back());
            open.pop_back();
            if (x.kind == ExprKind::Load) {
                const auto [it, fresh] = r.emplace(x.ref, extent);
                if (!fresh) it->second = min(it->second, extent);
                continue;
            }
            open.insert(open.end(), x.args.begin(), x.args.end());
        }
    };
    const auto indices = [&](TensorId t, const std::vector<ExprId>& at) {
        for (size_t d = 0; d < p.tensors[t].shape.size() && d < at.size(); ++d) limit(at[d], p.tensors[t].shape[d]);
    };
    for (ExprId e = 0; e < p.expr_count(); ++e)
        if (p.expr(e).kind == ExprKind::Load) indices(p.expr(e).ref, p.expr(e).args);
    for (const Equation& q : p.equations) indices(q.lhs, q.at);
    return r;
}

// Inputs whose elements are written to places that data names, where a later write replaces an earlier one: on a GPU
// nobody knows which is later, so they must not differ.
std::set<TensorId> overwritten(const Program& p) {
    std::set<TensorId> r;
    const auto by_data = [&](ExprId e) { return !p.reads(e).empty(); };
    for (const Equation& q : p.equations)
        if (q.update == Update::Overwrite && std::any_of(q.at.begin(), q.at.end(), by_data))
            for (TensorId t : p.reads(q.rhs)) r.insert(t);
    return r;
}

std::string reference_type(DType t) { return is_float(t) ? "double" : t == DType::Bool ? "bool" : host_type(t); }

constexpr const char* kTools = R"(
void check_call(cudaError_t code, const char* call) {
    if (code == cudaSuccess) return;
    std::printf("FAIL %s: %s (%s)\n", call, cudaGetErrorName(code), cudaGetErrorString(code));
    std::exit(1);
}
#define CHECK(call) check_call(call, #call)

// The same numbers on every machine: splitmix64.
uint64_t next_random(uint64_t& state) {
    uint64_t z = state += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

// Between -1 and 1, in steps that the type holds exactly. `steps` to the unit.
template <class T>
std::vector<T> random_floats(int64_t count, uint64_t seed, int64_t steps) {
    std::vector<T> r;
    r.reserve(count + 1);
    for (int64_t i = 0; i < count; ++i) {
        const auto step = static_cast<int64_t>(next_random(seed) % (2 * steps + 1)) - steps;
        r.push_back(static_cast<T>(static_cast<float>(step) / static_cast<float>(steps)));
    }
    return r;
}
// From 0 to below `limit`.
template <class T>
std::vector<T> random_integers(int64_t count, uint64_t seed, int64_t limit) {
    std::vector<T> r;
    r.reserve(count + 1);  // so that without elements there is still an address
    for (int64_t i = 0; i < count; ++i) r.push_back(static_cast<T>(limit > 0 ? next_random(seed) % limit : 0));
    return r;
}

// A copy in device memory; 0xa5 in every byte where nothing is copied, so that what a kernel leaves out shows.
template <class T>
class OnDevice {
public:
    explicit OnDevice(int64_t count) : count_(count) {
        CHECK(cudaMalloc(&data_, (count + 1) * sizeof(T)));
        CHECK(cudaMemset(data_, 0xa5, (count + 1) * sizeof(T)));
    }
    explicit OnDevice(const std::vector<T>& v) : OnDevice(static_cast<int64_t>(v.size())) {
        CHECK(cudaMemcpy(data_, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    }
    ~OnDevice() { cudaFree(data_); }
    OnDevice(const OnDevice&) = delete;
    T* data() { return static_cast<T*>(data_); }
    std::vector<T> read() const {
        std::vector<T> v(count_);
        CHECK(cudaMemcpy(v.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
        return v;
    }

private:
    int64_t count_;
    void* data_ = nullptr;
};

template <class T>
std::vector<double> widened(const std::vector<T>& v) {
    std::vector<double> r;
    r.reserve(v.size() + 1);
    for (const T& x : v) r.push_back(number(x));
    return r;
}

// The largest difference, relative to the largest expected value (at least 1); integers must be equal.
template <class T, class E>
bool agree(const char* name, const std::vector<T>& got, const std::vector<E>& expected, double tolerance) {
    double scale = 1;
    for (const E& e : expected)
        if (std::isfinite(number(e))) scale = std::max(scale, std::fabs(number(e)));
    for (size_t i = 0; i < got.size(); ++i) {
        const double g = number(got[i]), e = number(expected[i]);
        if (g == e || (std::isnan(g) && std::isnan(e)) || std::fabs(g - e) <= tolerance * scale) continue;
        std::printf("FAIL %s: element %zu is %.9g, expected %.9g\n", name, i, g, e);
        return false;
    }
    return true;
}
)";

class TestFile {
public:
    TestFile(const Program& p, const ProjectNames& n, const std::string& reference,
             const std::vector<std::string>& its_symbols)
        : p_(p), n_(n), reference_(reference), its_symbols_(its_symbols) {}

    std::string run(const EmitOptions& o) {
        Code c;
        c.comment(
            fmt::format("Checks {} at sizes around the edges of packs, warps and tiles against plain loops in double "
                        "precision. Prints OK or FAIL a size; the exit code is 0, 1 after a FAIL, 77 without a GPU.",
                        n_.name));
        std::string r = c.take() + fmt::format(
                                       "#include \"{}_launch.h\"\n\n#include <algorithm>\n#include <cmath>\n"
                                       "#include <cstdio>\n#include <cstdlib>\n#include <vector>\n\n",
                                       n_.name);
        r += fmt::format("extern \"C\" int {}({});\n\nnamespace {{\n", reference_, declaration());
        r += numbers() + std::string(kTools + 1) + "\n" + check() + "}  // namespace\n\n" + main(o);
        return r;
    }

private:
    std::string text(const Sym& s) const { return host_text(s, n_.sizes); }
    std::string count(TensorId t) const {
        std::string r;
        for (const Sym& d : p_.tensors[t].shape) {
            const std::string e = text(d);
            r += (r.empty() ? "" : " * ") +
                 (e.find(' ') == std::string::npos || p_.tensors[t].shape.size() == 1 ? e : "(" + e + ")");
        }
        return r.empty() ? "1" : r;
    }
    std::string declaration() const {
        std::string r;
        for (size_t i = 0; i < its_symbols_.size(); ++i) r += (r.empty() ? "" : ", ") + std::string("int64_t");
        for (TensorId t : p_.inputs)
            r += (r.empty() ? "" : ", ") + fmt::format("const {}*", reference_type(p_.tensors[t].dtype));
        for (TensorId t : p_.outputs)
            r += (r.empty() ? "" : ", ") + fmt::format("{}*", reference_type(p_.tensors[t].dtype));
        return r;
    }

    // A value in double precision; those of 16 bits do not convert by themselves.
    std::string numbers() const {
        std::string r = "template <class T>\ndouble number(T v) {\n    return static_cast<double>(v);\n}\n";
        std::set<DType> types;
        for (const auto& [t, name] : n_.tensors) types.insert(p_.tensors[t].dtype);
        if (types.count(DType::F16)) r += "double number(__half v) { return __half2float(v); }\n";
        if (types.count(DType::BF16)) r += "double number(__nv_bfloat16 v) { return __bfloat162float(v); }\n";
        return r + "\n";
    }

    // Terms of the longest sum, as text.
    std::string terms() const {
        std::set<std::string> all;
        for (ExprId e = 0; e < p_.expr_count(); ++e) {
            const Expr& x = p_.expr(e);
            if (x.kind != ExprKind::Reduce && x.kind != ExprKind::Scan) continue;
            Sym n = 1;
            for (VarId v : x.vars) n = n * p_.vars[v].extent;
            if (!n.is_const() || *n.constant() > 1) all.insert(text(n));
        }
        std::string r;
        for (const std::string& s : all) r = r.empty() ? s : fmt::format("std::max<int64_t>({}, {})", r, s);
        return r.empty() ? "1" : r;
    }

    std::string check() const {
        Code c;
        std::string sizes;
        for (const std::string& s : n_.symbols) sizes += (sizes.empty() ? "int64_t " : ", int64_t ") + n_.sizes.at(s);
        c.open("bool check({})", sizes);
        const std::map<TensorId, Sym> limits = index_limits(p_);
        std::string launch, call;
        const auto argument = [](std::string& list, const std::string& s) { list += (list.empty() ? "" : ", ") + s; };
        for (const std::string& s : n_.symbols) argument(launch, n_.sizes.at(s));
        for (const std::string& s : its_symbols_) argument(call, n_.sizes.at(s));
        int seed = 1;
        for (TensorId t : p_.inputs) {
            const std::string& name = n_.tensors.at(t);
            const DType d = p_.tensors[t].dtype;
            const std::string type = d == DType::Bool ? "uint8_t" : host_type(d);  // a vector of bool has no elements
            if (overwritten(p_).count(t)) {
                c.line("// Which of several writes to one place is the last is not known: they agree.");
                c.line("const std::vector<{0}> {1}({2}, static_cast<{0}>(1.0f));", type, name, count(t));
            } else if (is_float(d)) {
                const bool half = d == DType::F16 || d == DType::BF16;
                c.line("const auto {} = random_floats<{}>({}, {}, {});", name, type, count(t), seed, half ? 64 : 8192);
            } else {
                const auto limit = limits.find(t);
                c.line("const auto {} = random_integers<{}>({}, {}, {});", name, type, count(t), seed,
                       limit != limits.end() ? text(limit->second)
                       : d == DType::Bool    ? "2"
                                             : "8");
            }
            ++seed;
            c.line("OnDevice<{}> {}_device({});", type, name, name);
            argument(launch, d == DType::Bool ? fmt::format("reinterpret_cast<const bool*>({}_device.data())", name)
                                              : fmt::format("{}_device.data()", name));
            if (is_float(d) && d != DType::F64) {
                c.line("const std::vector<double> {0}_wide = widened({0});", name);
                argument(call, name + "_wide.data()");
            } else {
                argument(call, d == DType::Bool ? fmt::format("reinterpret_cast<const bool*>({}.data())", name)
                                                : name + ".data()");
            }
        }
        for (TensorId t : p_.outputs) {
            const std::string& name = n_.tensors.at(t);
            const DType d = p_.tensors[t].dtype;
            const std::string type = d == DType::Bool ? "uint8_t" : host_type(d);
            c.line("OnDevice<{}> {}_device({});", type, name, count(t));
            c.line("std::vector<{}> {}_expected({} + 1);", d == DType::Bool ? "uint8_t" : reference_type(d), name,
                   count(t));
            const bool b = d == DType::Bool;
            argument(launch, b ? fmt::format("reinterpret_cast<bool*>({}_device.data())", name)
                               : fmt::format("{}_device.data()", name));
            argument(call,
                     b ? fmt::format("reinterpret_cast<bool*>({}_expected.data())", name) : name + "_expected.data()");
        }
        if (n_.workspace) {
            std::string of;
            for (const std::string& s : n_.symbols) argument(of, n_.sizes.at(s));
            c.line("OnDevice<char> scratch({}_workspace_bytes({}));", n_.name, of);
            argument(launch, "scratch.data()");
        }
        if (n_.faults) {
            c.line("OnDevice<int> fault(std::vector<int>{{0}});");
            argument(launch, "fault.data()");
        }
        argument(launch, "nullptr");
        c.line("const bool refused = {}({}) > 0;", reference_, call);
        c.line("const cudaError_t launched = launch_{}({});", n_.name, launch);
        c.line(
            "if (launched == cudaErrorInvalidValue && refused) return true;  // both say that there is nothing to "
            "read");
        c.line("CHECK(launched);");
        c.line("CHECK(cudaDeviceSynchronize());");
        if (n_.faults) c.line("if (refused || fault.read()[0] != 0) return refused == (fault.read()[0] != 0);");
        c.comment("Rounding of the results, and of sums in the type that they are kept in.");
        c.line("const double terms = static_cast<double>({});", terms());
        c.line("bool ok = true;");
        for (TensorId t : p_.outputs) {
            const DType d = p_.tensors[t].dtype;
            const char* eps = d == DType::F16    ? "9.8e-4"
                              : d == DType::BF16 ? "7.9e-3"
                              : d == DType::F64  ? "2.3e-16"
                                                 : "1.2e-7";
            const char* sum = d == DType::F64 ? "2.3e-16" : "1.2e-7";
            const std::string tolerance =
                is_float(d) ? fmt::format("4 * {} + {} * (16 + std::sqrt(terms))", eps, sum) : std::string("0");
            c.line("ok &= agree(\"{0}\", {0}_device.read(), {0}_expected, {1});", n_.tensors.at(t), tolerance);
        }
        c.line("return ok;");
        c.close();
        return c.take();
    }

    std::string main(const EmitOptions& o) const {
        Code c;
        c.open("int main()");
        c.line("int devices = 0;");
        c.open("if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)");
        c.line("std::printf(\"not run: there is no GPU\\n\");");
        c.line("return 77;");
        c.close();
        c.line("bool ok = true;");
        const auto all = Sizes(p_, n_.symbols).run(o.sizes);
        std::string names, format, values;
        for (size_t i = 0; i < n_.symbols.size(); ++i) {
            names += (i ? ", " : "") + n_.sizes.at(n_.symbols[i]);
            format += (i ? ", " : "") + n_.sizes.at(n_.symbols[i]) + " = %lld";
            values += fmt::format("{}static_cast<long long>(s[{}])",
                                  i == 0       ? ""
                                  : i % 3 == 0 ? ",\n                    "
                                               : ", ",
                                  i);
        }
        if (n_.symbols.empty()) {
            c.line("const bool passed = check();");
            c.line("std::printf(\"%s {}\\n\", passed ? \"OK  \" : \"FAIL\");", n_.name);
            c.line("ok &= passed;");
        } else {
            c.line("// {}", names);
            c.line("const int64_t sizes[][{}] = {{", n_.symbols.size());
            for (const auto& v : all) c.line("    {{{}}},", fmt::join(v, ", "));
            c.line("}};");
            c.open("for (const auto& s : sizes)");
            std::string arguments;
            for (size_t i = 0; i < n_.symbols.size(); ++i) arguments += fmt::format("{}s[{}]", i ? ", " : "", i);
            c.line("const bool passed = check({});", arguments);
            c.line("std::printf(\"%s {} {}\\n\", passed ? \"OK  \" : \"FAIL\",", n_.name, format);
            c.line("            {});", values);
            c.line("ok &= passed;");
            c.close();
        }
        c.line("std::printf(ok ? \"OK\\n\" : \"FAIL\\n\");");
        c.line("return ok ? 0 : 1;");
        c.close();
        return c.take();
    }

    const Program& p_;
    const ProjectNames& n_;
    const std::string& reference_;
    const std::vector<std::string>& its_symbols_;
};
}  // namespace

std::string test_file(const Program& source, const ProjectNames& n, const std::string& reference,
                      const std::vector<std::string>& its_symbols, const EmitOptions& o) {
    return TestFile(source, n, reference, its_symbols).run(o);
}

}  // namespace opwright::target::cuda
