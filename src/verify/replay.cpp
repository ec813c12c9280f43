#include "verify/replay.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/version.h"
#include "derive/shape.h"

namespace opwright::verify {
using namespace math;
using nlohmann::json;
using nlohmann::ordered_json;

namespace {
constexpr int kFormat = 1;
constexpr int64_t kMaxWork = int64_t{1} << 30;
constexpr size_t kMaxInputs = 256, kMaxRank = 32;
constexpr const char* kNext = "Replay files are written by `opwright verify` where a case fails.";

// Elements as hexadecimal words, the most significant digit first.
std::string bits_text(const Tensor& t) {
    std::string r;
    const size_t n = size_of(t.dtype());
    for (int64_t i = 0; i < t.size(); ++i) {
        uint64_t v = 0;
        std::memcpy(&v, t.as<unsigned char>() + static_cast<size_t>(i) * n, n);
        r += fmt::format("{}{:0{}x}", i ? " " : "", v, 2 * n);
    }
    return r;
}
Result<Tensor> tensor_of(DType t, const Shape& s, const std::string& text, const std::string& who) {
    const int64_t n = element_count(s);
    const size_t word = 2 * size_of(t);
    // The text is there already: it bounds what is allocated.
    if (n < 0 ||
        (n == 0 ? !text.empty()
                : (text.size() + 1) / (word + 1) != static_cast<uint64_t>(n) || (text.size() + 1) % (word + 1) != 0))
        return Diagnostic(
            fmt::format("In the replay file, the bits of {} are not those of {}{}.", who, name(t), to_string(s)));
    Tensor r(t, s);
    for (int64_t i = 0; i < n; ++i) {
        uint64_t v = 0;
        const char* from = text.data() + static_cast<size_t>(i) * (word + 1);
        const auto [end, error] = std::from_chars(from, from + word, v, 16);
        if (error != std::errc() || end != from + word || (i + 1 < n && *end != ' '))
            return Diagnostic(fmt::format("In the replay file, element {} of {} is no hexadecimal word.", i, who));
        if (t == DType::Bool && v > 1)
            return Diagnostic(fmt::format("In the replay file, element {} of {} is no bool.", i, who));
        std::memcpy(r.as<unsigned char>() + static_cast<size_t>(i) * size_of(t), &v, size_of(t));
    }
    return r;
}

// Fields of an object, each with what was expected.
class Fields {
public:
    Fields(const json& j, std::string where) : j_(j), where_(std::move(where)) {}
    Result<std::string> text(const char* key, bool needed = true) const {
        const auto it = j_.find(key);
        if (it == j_.end() && !needed) return std::string();
        if (it == j_.end() || !it->is_string()) return wrong(key, "a text");
        return it->get<std::string>();
    }
    Result<DType> type(const char* key) const {
        OPW_TRY(const std::string t, text(key));
        if (const auto d = dtype_from_name(t)) return *d;
        return wrong(key, "an element type");
    }
    Result<const json*> list(const char* key, size_t most) const {
        const auto it = j_.find(key);
        if (it == j_.end() || !it->is_array() || it->size() > most) return wrong(key, "a list");
        return &*it;
    }
    Diagnostic wrong(const char* key, const char* what) const {
        return Diagnostic(fmt::format("In the replay file, \"{}\" of {} must be {}.", key, where_, what), {}, kNext);
    }

private:
    const json& j_;
    std::string where_;
};

Result<Shape> shape_of(const json& list, const Fields& f) {
    Shape s;
    for (const json& e : list) {
        if (!e.is_number_integer() || e.get<int64_t>() < 0) return f.wrong("shape", "a list of extents");
        s.push_back(e.get<int64_t>());
    }
    return s;
}

Result<lang::Argument> argument_of(const json& j) {
    lang::Argument a;
    if (j.is_null()) {
        a.present = false;
        return a;
    }
    if (!j.is_object()) return Diagnostic("In the replay file, an argument must be an object or null.", {}, kNext);
    const Fields f(j, "an argument");
    OPW_TRY(a.dtype, f.type("type"));
    OPW_TRY(const json* shape, f.list("shape", kMaxRank));
    for (const json& e : *shape) {
        if (e.is_number_integer() && e.get<int64_t>() >= 0)
            a.shape.emplace_back(e.get<int64_t>());
        else if (e.is_string() && !e.get<std::string>().empty())
            a.shape.push_back(Sym::symbol(e.get<std::string>()));
        else
            return f.wrong("shape", "a list of extents or of names");
    }
    return a;
}
}  // namespace

std::string to_json(const Replay& r) {
    ordered_json arguments = ordered_json::array(), inputs = ordered_json::array(), sizes = ordered_json::object();
    for (const lang::Argument& a : r.origin.arguments) {
        if (!a.present) {
            arguments.push_back(nullptr);
            continue;
        }
        ordered_json shape = ordered_json::array();
        for (const Sym& s : a.shape) {
            if (const auto c = s.constant())
                shape.push_back(*c);
            else
                shape.push_back(s.str());
        }
        arguments.push_back({{"type", std::string(name(a.dtype))}, {"shape", shape}});
    }
    for (size_t i = 0; i < r.c.inputs.size(); ++i) {
        const Tensor& t = r.c.inputs[i];
        inputs.push_back({{"type", std::string(name(t.dtype()))},
                          {"shape", t.shape()},
                          {"layout", std::string(name(r.c.layout(i)))},
                          {"bits", bits_text(t)}});
    }
    for (const auto& [n, v] : r.c.sizes) sizes[n] = v;
    ordered_json j{
        {"opwright_replay", kFormat}, {"version", kVersion}, {"operator", r.origin.op}, {"attributes", r.attributes}};
    if (!r.declaration.empty()) j["declaration"] = r.declaration;
    if (!r.origin.symbolic) j["arguments"] = arguments;
    j["target"] = r.target;
    j["vector"] = r.vector;
    if (!r.against.empty()) j["against"] = r.against;
    j["sizes"] = sizes;
    j["pattern"] = std::string(name(r.c.pattern));
    j["seed"] = r.c.seed;
    j["inputs"] = inputs;
    j["found"] = r.found;
    return j.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<Replay> read_replay(const std::string& text) {
    const json j = json::parse(text, nullptr, false);
    if (j.is_discarded() || !j.is_object() || !j.contains("opwright_replay"))
        return Diagnostic("This is no replay file: it is not JSON with a field \"opwright_replay\".", {}, kNext);
    if (j["opwright_replay"] != kFormat)
        return Diagnostic(
            fmt::format("This replay file is of format {}, and this version reads {}.",
                        j["opwright_replay"].dump(-1, ' ', false, json::error_handler_t::replace), kFormat),
            {}, "Use the version of Opwright that wrote it, or a later one.");
    const Fields f(j, "the file");
    Replay r;
    OPW_TRY(r.origin.op, f.text("operator"));
    OPW_TRY(r.declaration, f.text("declaration", false));
    OPW_TRY(r.target, f.text("target"));
    OPW_TRY(r.vector, f.text("vector"));
    OPW_TRY(r.against, f.text("against", false));
    OPW_TRY(r.found, f.text("found", false));
    r.origin.symbolic = !j.contains("arguments");
    if (!r.origin.symbolic) {
        OPW_TRY(const json* arguments, f.list("arguments", kMaxInputs));
        for (const json& a : *arguments) {
            OPW_TRY(lang::Argument one, argument_of(a));
            r.origin.arguments.push_back(std::move(one));
        }
    }
    if (!j.contains("sizes") || !j["sizes"].is_object()) return f.wrong("sizes", "an object");
    for (const auto& [n, v] : j["sizes"].items()) {
        if (!v.is_number_integer()) return f.wrong("sizes", "an object of numbers");
        r.c.sizes[n] = v.get<int64_t>();
    }
    OPW_TRY(const std::string pattern, f.text("pattern"));
    for (Pattern p : all_patterns())
        if (name(p) == pattern) r.c.pattern = p;
    if (j.contains("seed") && j["seed"].is_number_unsigned()) r.c.seed = j["seed"].get<uint64_t>();
    OPW_TRY(const json* inputs, f.list("inputs", kMaxInputs));
    for (const json& x : *inputs) {
        const std::string who = fmt::format("input {}", r.c.inputs.size());
        if (!x.is_object()) return f.wrong("inputs", "a list of objects");
        const Fields in(x, who);
        OPW_TRY(const DType t, in.type("type"));
        OPW_TRY(const json* extents, in.list("shape", kMaxRank));
        OPW_TRY(const Shape s, shape_of(*extents, in));
        OPW_TRY(const std::string layout, in.text("layout"));
        OPW_TRY(const std::string bits, in.text("bits"));
        OPW_TRY(Tensor tensor, tensor_of(t, s, bits, who));
        Layout l = Layout::Misaligned;
        bool known = false;
        for (Layout one : all_layouts())
            if (name(one) == layout) l = one, known = true;
        if (!known) return in.wrong("layout", "the name of a layout");
        r.c.layouts.push_back(l);
        r.c.inputs.push_back(std::move(tensor));
    }
    OPW_TRY(r.attributes, f.text("attributes"));
    return r;
}

Result<Rebuilt> rebuild(const Replay& r) {
    auto library = std::make_shared<lang::Library>();
    if (!r.declaration.empty())
        OPW_CHECK(library->add(std::make_shared<const Source>(Source{"the replay file's declaration", r.declaration})));
    const lang::OpDecl* d = library->find(r.origin.op);
    if (!d)
        return Diagnostic(
            fmt::format("The replay file is about '{}', which is no operator of the library.", r.origin.op));
    OPW_TRY(const lang::Attributes attributes,
            library->parse_attributes(
                *d, std::make_shared<const Source>(Source{"the replay file's attributes", r.attributes})));
    OPW_TRY(Program p, r.origin.symbolic ? library->elaborate_symbolic(r.origin.op)
                                         : library->elaborate(r.origin.op, r.origin.arguments, attributes));
    Rebuilt out{library, nullptr, r.c, attributes};
    if (p.inputs.size() != r.c.inputs.size())
        return Diagnostic(fmt::format("The replay file has {} inputs, and '{}' takes {} here.", r.c.inputs.size(),
                                      r.origin.op, p.inputs.size()));
    std::vector<Shape> shapes;
    for (size_t i = 0; i < p.inputs.size(); ++i) {
        if (r.c.inputs[i].dtype() != p.tensors[p.inputs[i]].dtype)
            return Diagnostic(fmt::format("The replay file's input {} is {}, and '{}' takes {} there.", i,
                                          name(r.c.inputs[i].dtype()), r.origin.op,
                                          name(p.tensors[p.inputs[i]].dtype)));
        shapes.push_back(r.c.inputs[i].shape());
        if (r.c.layout(i) == Layout::Expanded) out.c.inputs[i] = expanded(r.c.inputs[i]);
    }
    OPW_TRY(out.c.sizes, derive::bind_symbols(p, shapes, r.c.sizes));
    OPW_CHECK(derive::check_requirements(p, out.c.sizes));
    if (work_of(p, out.c.sizes) > kMaxWork)
        return Diagnostic(fmt::format("The case of the replay file is larger than any that `verify` makes: {}.",
                                      arguments_text(p, out.c.sizes)));
    out.program = std::make_shared<const Program>(std::move(p));
    return out;
}

}  // namespace opwright::verify
