#include "cli/subject.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "derive/shape.h"
#include "io/file.h"
#include "math/inline.h"
#include "math/unit_dims.h"
#include "runtime/thread_pool.h"

namespace opwright::cli {
namespace {

bool is_picture(const std::string& path) {
    const std::string e = io::extension(path);
    return e == ".png" || e == ".jpg" || e == ".jpeg";
}

// Samples of a picture [h, w, channels] as an input of a float type takes them: planes [channels, h, w] in 0..1, one
// plane without its dim, and leading dims of 1 up to `rank` (-1: as many as there are). Other types take the samples.
Tensor as_input(const Tensor& picture, DType t, int rank) {
    const int64_t h = picture.shape()[0], w = picture.shape()[1], channels = picture.shape()[2];
    if (!is_float(t)) return channels == 1 && rank == 2 ? picture.reshaped({h, w}) : picture;
    Shape s = channels == 1 ? Shape{h, w} : Shape{channels, h, w};
    while (rank > static_cast<int>(s.size())) s.insert(s.begin(), 1);
    Tensor r(t, s);
    for (int64_t c = 0; c < channels; ++c)
        for (int64_t i = 0; i < h * w; ++i) r.set(c * h * w + i, static_cast<double>(picture.get_int(i * channels + c)) / 255);
    return r;
}

std::string path_of(const std::string& item) {
    const size_t eq = item.find('=');
    return eq == std::string::npos ? item : item.substr(eq + 1);
}
// Names of the inputs that were given as pictures.
bool given_as_picture(const std::vector<std::string>& items, const std::string& name, bool only) {
    return std::any_of(items.begin(), items.end(), [&](const std::string& i) {
        return is_picture(path_of(i)) && ((only && i.find('=') == std::string::npos) || i.rfind(name + "=", 0) == 0);
    });
}
}  // namespace

bool is_model(const std::string& target) { return io::extension(target) == ".onnx"; }

bool is_file(const std::string& target) { return io::extension(target) == ".op" || target.find('/') != std::string::npos; }

Result<Operators> load_operators(const std::string& target, const std::string& only) {
    if (is_model(target))
        return Diagnostic(fmt::format("'{}' is a model, and this takes an operator: a file of declarations (.op), or a name of the library.", target))
            .with_next(fmt::format("`opwright explain {} --level c --node NAME` shows a model's kernel as source, for c or another target.", target));
    if (is_file(target)) {
        OPW_TRY(std::string text, io::read_file(target, 1 << 24));
        auto library = std::make_shared<lang::Library>();
        OPW_CHECK(library->add(std::make_shared<const Source>(Source{target, std::move(text)})));
        Operators r{library, {}};
        std::vector<std::string> all;
        for (const std::string& n : library->names())
            if (library->file(*library->find(n)) == target) all.push_back(n);
        for (const std::string& n : all)
            if (only.empty() || n == only) r.names.push_back(n);
        if (all.empty()) return Diagnostic(fmt::format("'{}' declares no operator.", target));
        if (r.names.empty()) {
            Diagnostic d(fmt::format("'{}' declares no operator named '{}'.", target, only));
            return d.with_next(fmt::format("It declares: {}.", fmt::join(all, ", ")));
        }
        return r;
    }
    const lang::Library& standard = lang::Library::standard();
    std::shared_ptr<const lang::Library> library(&standard, [](auto*) {});
    if (!standard.find(target)) {
        Diagnostic d(fmt::format("'{}' is no file of declarations (.op), no model (.onnx), and no operator of the library.", target));
        const std::string near = did_you_mean(target, standard.names());
        return d.with_next(near.empty() ? "`opwright ops` lists the operators that there are." : fmt::format("Did you mean '{}'?", near));
    }
    return Operators{library, {target}};
}

Result<std::pair<std::shared_ptr<const lang::Library>, std::string>> load_operator(const std::string& target, const std::string& only) {
    OPW_TRY(const Operators o, load_operators(target, only));
    if (o.names.size() > 1)
        return Diagnostic(fmt::format("'{}' declares {} operators, and one is wanted.", target, o.names.size()))
            .with_next(fmt::format("Add --op with one of: {}.", fmt::join(o.names, ", ")));
    return std::pair(o.library, o.names[0]);
}

void DataFlags::add(CLI::App& a, bool with_attributes) {
    a.add_option("--input", input, "NAME=FILE (.npy, .npz, .pb, .png, .jpg), or an .npz whose members feed the inputs of their names");
    a.add_option("--size", size, "values of symbolic sizes for inputs not given: n=3,w=224");
    a.add_option("--seed", seed, "seed of the random values of inputs not given")->capture_default_str();
    if (with_attributes)
        a.add_option("--type", type, "float type of an operator's inputs that are not given, in place of that of its first example")
            ->check(CLI::IsMember({"f32", "f64", "f16", "bf16"}));
    if (with_attributes) a.add_option("--attributes", attributes, "an operator's attributes, as the language writes them: \"stride = 2, pad = 1\"");
}

Result<NamedInputs> model_inputs(const Model& m, const DataFlags& d, std::vector<std::string>& notes) {
    std::vector<std::string> names;
    for (const auto& v : m.inputs()) names.push_back(v.name);
    OPW_TRY(const auto sizes, parse_sizes(d.size));
    OPW_TRY(NamedInputs inputs, read_inputs(d.input, names));
    std::vector<std::string> known;
    uint64_t seed = d.seed;
    for (const auto& v : m.inputs()) {
        for (const math::Sym& s : v.shape) math::collect_symbols(s, known);
        ++seed;
        if (auto it = inputs.find(v.name); it != inputs.end()) {
            if (given_as_picture(d.input, v.name, names.size() == 1))
                it->second = as_input(it->second, v.dtype, v.has_rank ? static_cast<int>(v.shape.size()) : -1);
            continue;
        }
        if (!v.has_rank)
            return Diagnostic(fmt::format("The model leaves the rank of input '{}' open.", v.name)).with_next(fmt::format("Give it a tensor: --input {}=FILE.", v.name));
        Shape shape;
        std::string chosen;
        for (size_t i = 0; i < v.shape.size(); ++i) {
            math::SymValues values;
            std::vector<std::string> symbols;
            math::collect_symbols(v.shape[i], symbols);
            for (const std::string& s : symbols) {
                const auto it = sizes.find(s);
                values[s] = it != sizes.end() ? it->second : i == 0 ? 1 : 64;
                if (it == sizes.end()) chosen += (chosen.empty() ? "" : ",") + fmt::format("{}={}", s, values[s]);
            }
            shape.push_back(math::evaluate(v.shape[i], values).value_or(1));
        }
        if (element_count(shape) < 0 || element_count(shape) > int64_t{1} << 32)
            return Diagnostic(fmt::format("Input '{}' would have shape {}, which is too large.", v.name, to_string(shape)));
        notes.push_back(fmt::format("{}: {}{} of random values (seed {}){}", v.name, name(v.dtype), to_string(shape), d.seed,
                                    chosen.empty() ? "" : fmt::format("; change sizes with --size {}", chosen)));
        inputs[v.name] = random_tensor(v.dtype, shape, seed);
    }
    for (const auto& [n, v] : sizes)
        if (std::find(known.begin(), known.end(), n) == known.end()) {
            Diagnostic e(fmt::format("The model has no symbolic size named '{}'.", n));
            return e.with_next(known.empty() ? "All its sizes are numbers." : fmt::format("Its sizes are: {}.", fmt::join(known, ", ")));
        }
    return inputs;
}

Result<Call> operator_call(std::shared_ptr<const lang::Library> l, const std::string& op, const DataFlags& d, const CompileOptions& o,
                           std::shared_ptr<runtime::ThreadPool> pool) {
    const lang::OpDecl& decl = *l->find(op);
    OPW_TRY(const auto sizes, parse_sizes(d.size));
    OPW_TRY(lang::Attributes attributes, l->parse_attributes(decl, std::make_shared<const Source>(Source{"--attributes", d.attributes})));
    Call c;
    for (const lang::Parameter& p : l->parameters(decl)) c.names.push_back(p.name);
    OPW_TRY(auto given, read_inputs(d.input, c.names));
    const auto seed_of = [&](size_t i) { return d.seed + 1 + i; };
    if (!given.empty()) {
        const auto parameters = l->parameters(decl);
        for (size_t i = 0; i < c.names.size(); ++i) {
            const auto it = given.find(c.names[i]);
            if (it == given.end() && !parameters[i].optional)
                return Diagnostic(fmt::format("Input '{}' is not given.", c.names[i])).with_next(fmt::format("Add --input {}=FILE.", c.names[i]));
            if (it == given.end()) c.inputs.emplace_back();
            else if (given_as_picture(d.input, c.names[i], c.names.size() == 1)) c.inputs.push_back(as_input(it->second, DType::F32, -1));
            else c.inputs.push_back(it->second);
        }
    } else if (!sizes.empty()) {
        OPW_TRY(const math::Program p, l->elaborate_symbolic(op, 2, d.floats()));
        OPW_TRY(const auto examples, l->examples(decl));
        if (d.attributes.empty() && !examples.empty()) attributes = examples[0].attributes;
        math::SymValues values;
        for (const std::string& s : p.symbols()) {
            const auto it = sizes.find(s);
            values[s] = it != sizes.end() ? it->second : 64;
        }
        for (const auto& [n, v] : sizes)
            if (!values.count(n))
                return Diagnostic(fmt::format("'{}' has no size named '{}'.", op, n)).with_next(fmt::format("Its sizes are: {}.", fmt::join(p.symbols(), ", ")));
        for (size_t i = 0, next = 0; next < p.inputs.size(); ++i) {
            // Parameters that the first example leaves out are left out here too.
            if (!examples.empty() && i < examples[0].arguments.size() && !examples[0].arguments[i].present) {
                c.inputs.emplace_back();
                continue;
            }
            OPW_TRY(Shape s, derive::concrete_shape(p, p.inputs[next], values));
            c.inputs.push_back(random_tensor(p.tensors[p.inputs[next]].dtype, std::move(s), seed_of(i)));
            ++next;
        }
    } else {
        OPW_TRY(const auto examples, l->examples(decl));
        if (examples.empty())
            return Diagnostic(fmt::format("'{}' has no example to take sizes from.", op)).with_next("Give sizes (--size m=64,n=64), tensors (--input x=FILE), or add an example line to the declaration.");
        if (d.attributes.empty()) attributes = examples[0].attributes;
        for (size_t i = 0; i < examples[0].arguments.size(); ++i) {
            const lang::Argument& a = examples[0].arguments[i];
            if (!a.present) {
                c.inputs.emplace_back();
                continue;
            }
            Shape s;
            for (const math::Sym& e : a.shape) s.push_back(e.constant().value_or(1));
            const DType t = d.floats() && is_float(a.dtype) ? *d.floats() : a.dtype;
            c.inputs.push_back(random_tensor(t, std::move(s), seed_of(i)));
        }
    }
    OPW_TRY(c.op, Operator::make(*l, op, std::move(attributes), o, std::move(pool)));
    return c;
}

Result<math::Program> operator_program(std::shared_ptr<const lang::Library> l, const std::string& op, const DataFlags& d) {
    math::Program p;
    if (d.input.empty() && d.attributes.empty()) {
        OPW_TRY(p, l->elaborate_symbolic(op, 2, d.floats()));
    } else {
        OPW_TRY(const Call call, operator_call(l, op, d, {}, std::make_shared<runtime::ThreadPool>(1)));
        OPW_TRY(const auto version, call.op->version(call.inputs));
        p = version.program;
    }
    return math::inline_temporaries(math::drop_unit_variables(p)).program;
}

}  // namespace opwright::cli
