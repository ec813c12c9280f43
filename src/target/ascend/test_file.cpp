#include "target/ascend/test_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "derive/reference.h"
#include "target/ascend/project.h"

namespace opwright::target::ascend {
using namespace math;

namespace {

constexpr int64_t kElements = 400;  // of a tensor of a case: the file stays readable
constexpr size_t kCases = 3;

// What both ways of running share, around the declarations of either.
const char* const kDevice = R"(
// Global memory of the device for vectors of the host.
class Memory {
public:
    Memory()
    {
        aclInit(nullptr);
        aclrtSetDevice(0);
        aclrtCreateStream(&stream);
    }

    template <typename T>
    uint8_t *Add(const char *, std::vector<T> &v, bool writable)
    {
        void *p = nullptr;
        const size_t bytes = v.size() * sizeof(T);
        aclrtMalloc(&p, bytes + 32, ACL_MEM_MALLOC_HUGE_FIRST);
        aclrtMemcpy(p, bytes, v.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE);
        if (writable) {
            results.push_back({v.data(), p, bytes});
        }
        return static_cast<uint8_t *>(p);
    }

    aclrtStream &Where() { return stream; }

    // Waits for the kernels, and fetches what they wrote.
    bool Finish()
    {
        const bool ran = aclrtSynchronizeStream(stream) == ACL_SUCCESS;
        for (const Result &r : results) {
            aclrtMemcpy(r.host, r.bytes, r.device, r.bytes, ACL_MEMCPY_DEVICE_TO_HOST);
        }
        return ran;
    }

private:
    struct Result {
        void *host, *device;
        size_t bytes;
    };
    aclrtStream stream = nullptr;
    std::vector<Result> results;
};

constexpr int64_t CORES = 48;
)";
const char* const kSimulator = R"(
bool hazards = false;

void Report(const std::vector<ascend_sim::Finding> &findings)
{
    for (const ascend_sim::Finding &f : findings) {
        std::printf("%s: %s\n", f.rule.c_str(), f.text.c_str());
        hazards = true;
    }
}

// Global memory of the simulator: vectors of the host, each access checked.
class Memory {
public:
    template <typename T>
    uint8_t *Add(const char *name, std::vector<T> &v, bool writable)
    {
        device.add(name, v.data(), v.size() * sizeof(T), writable);
        return reinterpret_cast<uint8_t *>(v.data());
    }

    ascend_sim::Device &Where() { return device; }

    bool Finish() { return !hazards; }

private:
    ascend_sim::Device device;
};

constexpr int64_t CORES = 3;  // few, so that small tensors have several tasks a core
)";
const char* const kHalf = R"(
// The float that the bits of a half are.
double Decode(uint16_t bits)
{
    const int exponent = bits >> 10 & 31;
    const double fraction = bits & 1023;
    const double magnitude = exponent == 31  ? (fraction != 0 ? std::nan("") : INFINITY)
                             : exponent == 0 ? std::ldexp(fraction, -24)
                                             : std::ldexp(fraction + 1024, exponent - 25);
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}
)";
const char* const kBfloat = R"(
// The float that the bits of a bfloat16 are.
double Decode(uint16_t bits)
{
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float f;
    std::memcpy(&f, &wide, sizeof(f));
    return f;
}
)";
const char* const kAgree = R"(
// Whether every result lies within the bound around what is wanted; where that is infinite, anything may stand.
template <typename T>
bool Agree(const char *name, const std::vector<T> &result, const std::vector<double> &wanted,
        const std::vector<double> &bound)
{
    for (size_t i = 0; i < result.size(); ++i) {
        const double got = {0};
        const bool same = got == wanted[i] || (got != got && wanted[i] != wanted[i]);
        if (!same && bound[i] < INFINITY && !(std::fabs(got - wanted[i]) <= bound[i])) {
            std::printf("%s[%zu] is %.9g, and should be %.9g within %.3g\n", name, i, got, wanted[i], bound[i]);
            return false;
        }
    }
    return true;
}
)";

std::string replaced(std::string text, const std::string& mark, const std::string& by) {
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + by.size()))
        text.replace(at, mark.size(), by);
    return text;
}

bool half(DType t) { return t == DType::F16 || t == DType::BF16; }
// The type of the host's vector: of 16-bit floats the bits.
std::string host_type(DType t) { return half(t) ? "uint16_t" : t == DType::Bool ? "uint8_t" : memory_type(t); }

std::string number(double v) {
    if (std::isnan(v)) return "NAN";
    if (std::isinf(v)) return v < 0 ? "-INFINITY" : "INFINITY";
    return fmt::format("{}", v);
}
std::string element(const Tensor& t, int64_t i) {
    if (half(t.dtype())) return fmt::format("{}", t.as<uint16_t>()[i]);
    if (t.dtype() == DType::F32) {
        const double v = t.get(i);
        if (std::isnan(v) || std::isinf(v)) return number(v);
        const std::string s = fmt::format("{}", static_cast<float>(v));
        return s + (s.find_first_of(".e") == std::string::npos ? ".0f" : "f");
    }
    if (t.dtype() == DType::I64 && t.get_int(i) == std::numeric_limits<int64_t>::min()) return "INT64_MIN";
    return fmt::format("{}", t.get_int(i));
}
template <class F>
std::string list(int64_t n, const F& f) {
    std::string r = "{";
    for (int64_t i = 0; i < n; ++i) r += (i ? ", " : "") + f(i);
    return r + "}";
}

std::optional<Shape> shape_at(const TensorInfo& t, const SymValues& v) {
    Shape r;
    for (const Sym& s : t.shape) {
        const int64_t n = evaluate(s, v).value_or(-1);
        if (n < 0) return std::nullopt;
        r.push_back(n);
    }
    return element_count(r) < 0 || element_count(r) > kElements ? std::nullopt : std::optional(r);
}

struct Case {
    SymValues sizes;
    std::vector<Tensor> inputs;
    std::vector<derive::ReferenceOutput> wanted;
};

// Random inputs; integers all 0 where `zero`, which is a position in everything.
std::optional<Case> make_case(const Program& p, const SymValues& sizes, bool zero, uint64_t seed) {
    for (const Requirement& r : p.requirements)
        if (evaluate(r.value, sizes).value_or(0) == 0) return std::nullopt;
    Case c{sizes, {}, {}};
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    for (TensorId t : p.inputs) {
        const auto shape = shape_at(p.tensors[t], sizes);
        if (!shape) return std::nullopt;
        Tensor x(p.tensors[t].dtype, *shape);
        for (int64_t i = 0; i < x.size(); ++i) {
            if (is_float(x.dtype()))
                x.set(i, normal(random));
            else if (x.dtype() == DType::Bool)
                x.set_int(i, static_cast<int64_t>(random() % 2));
            else
                x.set_int(i, zero ? 0 : static_cast<int64_t>(random() % 9) - (is_signed_int(x.dtype()) ? 4 : 0));
        }
        c.inputs.push_back(std::move(x));
    }
    for (TensorId t : p.outputs)
        if (!shape_at(p.tensors[t], sizes)) return std::nullopt;
    auto wanted = derive::reference(p, c.inputs, sizes);
    if (!wanted.ok()) return std::nullopt;
    c.wanted = std::move(*wanted);
    return c;
}

std::vector<Case> make_cases(const Program& p, const SymValues& asked) {
    const std::vector<std::string> symbols = p.symbols();
    std::vector<SymValues> offers;
    const auto all = [&](auto value) {
        SymValues v;
        for (size_t i = 0; i < symbols.size(); ++i) v[symbols[i]] = value(i);
        offers.push_back(std::move(v));
    };
    if (!asked.empty()) offers.push_back(asked);
    constexpr int64_t kPrimes[] = {3, 5, 7, 2, 11, 13};
    all([&](size_t i) { return kPrimes[i % 6]; });
    // More than a tile of 64 along the last, which need not be whole 32 bytes.
    all([&](size_t i) { return i + 1 == symbols.size() ? 69 : 3; });
    all([](size_t) { return 1; });
    for (int64_t n : {2, 3, 4, 5, 6, 8, 9, 12, 16, 20, 33}) all([&](size_t) { return n; });
    std::vector<Case> r;
    for (const SymValues& v : offers) {
        if (r.size() == kCases) break;
        if (std::any_of(r.begin(), r.end(), [&](const Case& c) { return c.sizes == v; })) continue;
        for (const bool zero : {false, true})
            if (auto c = make_case(p, v, zero, 17 + r.size())) {
                r.push_back(std::move(*c));
                break;
            }
    }
    return r;
}

std::string case_text(const Operator& op, const Program& p, const Case& c, size_t index) {
    const Program& m = op.plans[0].program;
    const Names names(m);
    std::string about, body, arguments;
    for (size_t i = 0; i < op.fields.size(); ++i)
        about += fmt::format("{}{} = {}", i ? ", " : "", op.fields[i], c.sizes.at(op.symbols[i]));
    const auto vector = [&](const std::string& name, const Tensor& t, bool writable) {
        body += fmt::format(
            "    std::vector<{}> {}{};\n", host_type(t.dtype()), name,
            writable ? fmt::format("({})", t.size()) : list(t.size(), [&](int64_t i) { return element(t, i); }));
        arguments += fmt::format("memory.Add(\"{0}\", {0}, {1}), ", name, writable ? "true" : "false");
    };
    for (size_t i = 0; i < p.inputs.size(); ++i) vector(names.tensor(m.inputs[i]), c.inputs[i], false);
    for (TensorId t = 0; t < m.tensors.size(); ++t)
        if (m.tensors[t].role == Role::Constant) vector(names.tensor(t), m.tensors[t].data, false);
    for (size_t i = 0; i < p.outputs.size(); ++i) {
        Tensor y(p.tensors[p.outputs[i]].dtype, c.wanted[i].value.shape());
        vector(names.tensor(m.outputs[i]), y, true);
    }
    std::string sizes;
    for (const std::string& f : op.fields)
        sizes += std::to_string(c.sizes.at(op.symbols[static_cast<size_t>(&f - op.fields.data())])) + ", ";
    if (has_workspace(op)) {
        const std::string list_of = sizes.empty() ? "" : sizes.substr(0, sizes.size() - 2);
        body +=
            fmt::format("    std::vector<uint8_t> workspace({}WorkspaceBytes({}));\n", upper_camel(op.name), list_of);
        arguments += "memory.Add(\"workspace\", workspace, true), ";
    }
    std::string faults;
    if (has_faults(op)) {
        body += "    std::vector<int32_t> faults(CORES);\n";
        faults = "memory.Add(\"faults\", faults, true), ";
    }
    body += "    Memory memory;\n";
    body += fmt::format("    {}({}{}{}CORES, memory.Where());\n    bool right = memory.Finish();\n",
                        upper_camel(op.name), arguments, sizes, faults);
    for (size_t i = 0; i < p.outputs.size(); ++i) {
        const Tensor &value = c.wanted[i].value, &bound = c.wanted[i].bound;
        const bool real = value.dtype() == DType::F64;
        body += fmt::format(
            "    right = Agree(\"{0}\", {0}, {1},\n            {2}) && right;\n", names.tensor(m.outputs[i]),
            list(value.size(),
                 [&](int64_t k) { return real ? number(value.get(k)) : std::to_string(value.get_int(k)); }),
            list(bound.size(), [&](int64_t k) {
                return std::isinf(bound.get(k)) ? "INFINITY" : fmt::format("{:.2g}", bound.get(k) * 1.01);
            }));
    }
    return fmt::format("\n// {}\nbool Case{}()\n{{\n{}    return right;\n}}\n", about.empty() ? "no sizes" : about,
                       index + 1, body);
}
}  // namespace

std::string test_file(const Operator& op, const Program& p, const SymValues& asked) {
    const std::vector<Case> cases = make_cases(p, asked);
    if (cases.empty()) return "";
    std::string r = fmt::format(
        "// {0}: the kernels against the declaration, which was evaluated in double when this was written. A result "
        "may\n"
        "// differ by the bound that goes with it, which follows from how each operation rounds.\n"
        "//   on the simulator:  opwright ascend-sim {0}_test.cpp\n"
        "//   on a device:       cmake -B build && cmake --build build && build/{0}_test\n"
        "#include <cmath>\n#include <cstdint>\n#include <cstdio>\n#include <cstring>\n#include <vector>\n\n"
        "#if __has_include(\"acl/acl.h\")\n#include \"acl/acl.h\"\n\n{1};\n",
        op.name, launch_signature(op, "aclrtStream stream"));
    if (has_workspace(op))
        r += fmt::format("int64_t {}WorkspaceBytes({});\n", upper_camel(op.name), size_parameters(op));
    r += kDevice;
    r += fmt::format("#else\n#include \"{}_kernel.h\"\n", op.name);
    r += kSimulator;
    r += "\n" + launch_functions(op, true) + "#endif\n";
    const auto stored = [&](DType t) {
        return std::any_of(p.outputs.begin(), p.outputs.end(), [&](TensorId o) { return p.tensors[o].dtype == t; });
    };
    if (stored(DType::F16) && stored(DType::BF16)) return "";  // their vectors are of one type
    if (stored(DType::F16)) r += kHalf;
    if (stored(DType::BF16)) r += kBfloat;
    const bool decode = stored(DType::F16) || stored(DType::BF16);
    if (decode && stored(DType::U16)) return "";
    std::string agree = replaced(kAgree, "{0}", decode ? "Decoded(result[i])" : "static_cast<double>(result[i])");
    if (decode)
        r += "\ntemplate <typename T>\ndouble Decoded(T x)\n{\n    return static_cast<double>(x);\n}\n\ninline double "
             "Decoded(uint16_t x)\n{\n    return Decode(x);\n}\n";
    r += agree;
    std::string calls;
    for (size_t i = 0; i < cases.size(); ++i) {
        r += case_text(op, p, cases[i], i);
        calls += fmt::format("    failed += Case{}() ? 0 : 1;\n", i + 1);
    }
    r += fmt::format(
        "\nint main()\n{{\n    int failed = 0;\n{}    std::printf(\"{}: %d of {} cases agree with the "
        "declaration\\n\", {} "
        "- failed);\n    return failed;\n}}\n",
        calls, op.name, cases.size(), cases.size());
    return r;
}

}  // namespace opwright::target::ascend
