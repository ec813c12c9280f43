#include <algorithm>
#include <cmath>
#include <filesystem>

#include "graph/onnx/import.h"
#include "graph/onnx/tensor_proto.h"
#include "io/file.h"
#include "verify/graph_reference.h"
#include "verify/onnx_test.h"

namespace opwright::verify {
namespace fs = std::filesystem;
namespace onnx = graph::onnx;

namespace {

// What a diagnostic says, on one line.
std::string one_line(const Diagnostic& d) {
    std::string r = d.message;
    for (const Note& n : d.notes) r += " " + n.text;
    std::replace(r.begin(), r.end(), '\n', ' ');
    return r;
}

// The files STEM_0.pb, STEM_1.pb, ...
Result<std::vector<Tensor>> read_tensors(const fs::path& stem) {
    std::vector<Tensor> r;
    for (int i = 0;; ++i) {
        const fs::path path = stem.string() + "_" + std::to_string(i) + ".pb";
        if (!fs::exists(path)) return r;
        OPW_TRY(const std::string bytes, io::read_file(path.string()));
        auto t = onnx::tensor_from_proto(bytes);
        if (!t.ok()) return Diagnostic(path.filename().string() + ": " + t.error().message);
        r.push_back(std::move(t->tensor));
    }
}

// Empty where `got` is what is wanted.
std::string difference(const Tensor& got, const Tensor& want, const OnnxTestOptions& o) {
    if (got.dtype() != want.dtype())
        return "is " + std::string(opwright::name(got.dtype())) + " and should be " +
               std::string(opwright::name(want.dtype()));
    if (got.shape() != want.shape())
        return "has the shape " + to_string(got.shape()) + " and should have " + to_string(want.shape());
    int64_t wrong = 0, first = -1;
    // What rounding of the largest element hides: expected values below it are noise of the program that wrote them.
    double largest = 0;
    for (int64_t i = 0; is_float(want.dtype()) && i < want.size(); ++i)
        if (std::isfinite(want.get(i))) largest = std::max(largest, std::abs(want.get(i)));
    const double atol = std::max(o.atol, largest * 0x1p-23);
    for (int64_t i = 0; i < got.size(); ++i) {
        bool same;
        if (is_float(got.dtype())) {
            const double a = got.get(i), b = want.get(i);
            same = a == b || (std::isnan(a) && std::isnan(b)) ||
                   (std::isfinite(a) && std::isfinite(b) && std::abs(a - b) <= atol + o.rtol * std::abs(b));
        } else {
            same = got.get_int(i) == want.get_int(i);
        }
        if (same) continue;
        if (wrong++ == 0) first = i;
    }
    if (wrong == 0) return "";
    const auto show = [&](const Tensor& t) {
        return is_float(t.dtype()) ? std::to_string(t.get(first)) : std::to_string(t.get_int(first));
    };
    return "differs in " + std::to_string(wrong) + " of " + std::to_string(got.size()) + " elements; element " +
           std::to_string(first) + " is " + show(got) + " and should be " + show(want);
}

CaseResult verdict(CaseVerdict v, std::string reason) { return {"", v, std::move(reason), 0}; }

// The graph for these inputs: the values of inputs that decide its form are given as the import asks for them, and the
// sizes where nothing else helps.
std::variant<graph::Graph, onnx::ImportFailure> specialise(const onnx::Model& m,
                                                           const std::vector<onnx::ModelValue>& declared,
                                                           const std::vector<Tensor>& inputs) {
    onnx::ImportOptions options;
    for (size_t round = 0;; ++round) {
        auto r = onnx::import(m, options);
        auto* f = std::get_if<onnx::ImportFailure>(&r);
        if (!f || f->malformed || round > inputs.size() + 1) return r;
        if (!f->unsupported.empty()) {
            if (!options.input_shapes.empty() || inputs.empty()) return r;
            for (size_t i = 0; i < inputs.size(); ++i) options.input_shapes[declared[i].name] = inputs[i].shape();
            continue;
        }
        for (size_t i = 0; i < inputs.size(); ++i) {
            const auto asked = [&](const std::vector<std::string>& names) {
                return std::find(names.begin(), names.end(), declared[i].name) != names.end();
            };
            if (asked(f->needs_value)) options.known_inputs[declared[i].name] = inputs[i];
            if (asked(f->needs_shape)) options.input_shapes[declared[i].name] = inputs[i].shape();
        }
    }
}

// What the light models are fed with: i / n for element i of n, open extents being 1.
Result<std::vector<Tensor>> ramps(const std::vector<onnx::ModelValue>& declared) {
    std::vector<Tensor> r;
    for (const onnx::ModelValue& v : declared) {
        Shape shape;
        for (const math::Sym& s : v.shape) shape.push_back(s.constant().value_or(1));
        if (v.dtype != DType::F32 || !v.has_rank || element_count(shape) > (int64_t{1} << 28))
            return Diagnostic("No data are defined for the input '" + v.name + "'.");
        Tensor t(DType::F32, shape);
        for (int64_t i = 0; i < t.size(); ++i)
            t.as<float>()[i] = static_cast<float>(static_cast<double>(i) / static_cast<double>(t.size()));
        r.push_back(std::move(t));
    }
    return r;
}

// One set of data: files of a folder, or (`light`) made-up inputs and NAME_output_K.pb beside NAME.onnx.
CaseResult run_data_set(const onnx::Model& m, const fs::path& data, bool light, const OnnxTestOptions& o) {
    const auto declared = onnx::model_inputs(m);
    for (const auto& values : {declared, onnx::model_outputs(m)})
        for (const onnx::ModelValue& v : values)
            if (!v.unsupported.empty() && v.unsupported != onnx::kNoType)
                return verdict(CaseVerdict::Unsupported,
                               "The type of '" + v.name + "' is " + v.unsupported + ", and only tensors of " +
                                   "bool, integers of 8 to 64 bits, f16, bf16, f32 and f64 are supported.");
    const auto inputs = light ? ramps(declared) : read_tensors(data / "input");
    const auto expected = read_tensors(light ? fs::path(data.string() + "_output") : data / "output");
    if (!inputs.ok()) return verdict(CaseVerdict::Unsupported, one_line(inputs.error()));
    if (!expected.ok()) return verdict(CaseVerdict::Unsupported, one_line(expected.error()));
    if (expected->empty()) return verdict(CaseVerdict::Unsupported, "There are no outputs to compare with.");
    if (inputs->size() != declared.size())
        return verdict(CaseVerdict::Unsupported, "The data give " + std::to_string(inputs->size()) +
                                                     " inputs, and the model has " + std::to_string(declared.size()) +
                                                     ".");
    auto imported = specialise(m, declared, *inputs);
    if (const auto* f = std::get_if<onnx::ImportFailure>(&imported))
        return verdict(CaseVerdict::Unsupported, one_line(f->diagnostic));
    const auto& g = std::get<graph::Graph>(imported);
    if (const auto errors = graph::verify(g); !errors.empty())
        return verdict(CaseVerdict::Wrong, "The graph is not well formed: " + errors[0]);
    bool refused = false;
    const auto outputs = o.run ? o.run(g, *inputs, &refused) : run_reference(g, *inputs);
    if (refused) return verdict(CaseVerdict::Unsupported, one_line(outputs.error()));
    if (!outputs.ok())
        return verdict(CaseVerdict::Wrong, "It was imported and did not run: " + one_line(outputs.error()));
    if (outputs->size() != expected->size())
        return verdict(CaseVerdict::Wrong, "It has " + std::to_string(outputs->size()) + " outputs and should have " +
                                               std::to_string(expected->size()) + ".");
    for (size_t i = 0; i < outputs->size(); ++i)
        if (const std::string d = difference((*outputs)[i], (*expected)[i], o); !d.empty())
            return verdict(CaseVerdict::Wrong, "Output " + std::to_string(i + 1) + " of " +
                                                   std::to_string(outputs->size()) + " " + d + ".");
    return verdict(CaseVerdict::Pass, "");
}
}  // namespace

std::string name(CaseVerdict v) {
    switch (v) {
        case CaseVerdict::Pass: return "pass";
        case CaseVerdict::Wrong: return "wrong";
        case CaseVerdict::Crash: return "crash";
        case CaseVerdict::Unsupported: return "unsupported";
        case CaseVerdict::Timeout: return "timeout";
    }
    return "";
}

CaseResult run_onnx_case(const std::string& path, const OnnxTestOptions& o) {
    const bool light = !fs::is_directory(path);
    auto model = onnx::parse_file(light ? path : (fs::path(path) / "model.onnx").string());
    if (!model.ok()) return verdict(CaseVerdict::Unsupported, one_line(model.error()));
    if (light) return run_data_set(**model, fs::path(path).replace_extension(), true, o);
    std::vector<fs::path> sets;
    for (const auto& e : fs::directory_iterator(path))
        if (e.is_directory() && e.path().filename().string().rfind("test_data_set_", 0) == 0) sets.push_back(e.path());
    std::sort(sets.begin(), sets.end());
    if (sets.empty()) return verdict(CaseVerdict::Unsupported, "The folder holds no test_data_set_*.");
    for (const fs::path& s : sets)
        if (CaseResult r = run_data_set(**model, s, false, o); r.verdict != CaseVerdict::Pass) return r;
    return verdict(CaseVerdict::Pass, "");
}

}  // namespace opwright::verify
