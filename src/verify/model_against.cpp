#include "verify/model_against.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "io/npz.h"
#include "verify/child.h"
#include "verify/compare.h"

namespace opwright::verify {
std::string_view python_file(std::string_view name);  // of python/, embedded

namespace fs = std::filesystem;

namespace {
// Each float moved by at most half an ulp of f32 (f64: of f64), either way.
NamedInputs moved(const NamedInputs& inputs, uint64_t seed) {
    NamedInputs r;
    std::mt19937_64 random(seed);
    for (const auto& [n, t] : inputs) {
        Tensor x = t.clone();
        if (t.dtype() == DType::F32 || t.dtype() == DType::F64)
            for (int64_t i = 0; i < x.size(); ++i) {
                const double v = t.get(i);
                if (!std::isfinite(v)) continue;
                if (random() & 1) x.set(i, v * (1 + (random() & 1 ? 1 : -1) * unit_roundoff(t.dtype()) * 1.01));
            }
        r[n] = std::move(x);
    }
    return r;
}

struct Distance {
    double largest = 0;
    int64_t at = 0;
};
// Largest distance; infinite where one is NaN or infinite and the other is not.
Distance distance(const Tensor& a, const Tensor& b) {
    Distance d;
    for (int64_t i = 0; i < a.size(); ++i) {
        const double x = a.get(i), y = b.get(i);
        if (x == y || (std::isnan(x) && std::isnan(y))) continue;
        const double e = std::isfinite(x) && std::isfinite(y) ? std::fabs(x - y) : INFINITY;
        if (e > d.largest) d = {e, i};
    }
    return d;
}
bool alike(const Tensor& a, const Tensor& b) { return a.dtype() == b.dtype() && a.shape() == b.shape(); }
}  // namespace

bool ModelComparison::passed() const {
    return !outputs.empty() && std::all_of(outputs.begin(), outputs.end(), [](const auto& o) { return o.passed; });
}

Result<ModelComparison> compare_runs(const std::vector<std::string>& names, const NamedInputs& inputs,
                                     const ModelRun& mine, const ModelRun& other, const ModelRun& reference,
                                     const std::vector<ModelRun>& variants) {
    OPW_TRY(const auto a, mine(inputs));
    OPW_TRY(const auto b, other(inputs));
    if (a.size() != b.size())
        return Diagnostic(fmt::format("One has {} outputs, the other {}.", a.size(), b.size()), {},
                          "Compare models of the same inputs and outputs.");
    const auto exact = reference(inputs);
    std::vector<std::vector<Tensor>> others;
    if (exact.ok()) others.push_back(*exact);
    for (const ModelRun& v : variants) {
        OPW_TRY(auto r, v(inputs));
        others.push_back(std::move(r));
    }
    for (uint64_t seed : {1, 2, 3}) {
        OPW_TRY(auto r, mine(moved(inputs, seed)));
        others.push_back(std::move(r));
    }
    ModelComparison r;
    for (size_t i = 0; i < a.size(); ++i) {
        OutputComparison o{.name = i < names.size() ? names[i] : fmt::format("output {}", i)};
        if (!alike(a[i], b[i])) {
            o.note = fmt::format("{}{} against {}{}", name(a[i].dtype()), to_string(a[i].shape()), name(b[i].dtype()),
                                 to_string(b[i].shape()));
            o.verdict = "wrong";
            o.passed = false;
            r.outputs.push_back(std::move(o));
            continue;
        }
        for (int64_t k = 0; k < a[i].size(); ++k)
            if (std::isfinite(a[i].get(k))) o.largest = std::max(o.largest, std::fabs(a[i].get(k)));
        const Distance d = distance(a[i], b[i]);
        o.difference = d.largest;
        o.where = unravel(d.at, a[i].shape());
        if (exact.ok() && alike((*exact)[i], a[i])) {
            o.error = distance(a[i], (*exact)[i]).largest;
            o.other_error = distance(b[i], (*exact)[i]).largest;
        }
        for (const auto& v : others)
            if (alike(v[i], a[i])) o.noise = std::max(o.noise, distance(v[i], a[i]).largest);
        // An output that nothing moves may still be rounded once otherwise.
        if (is_float(a[i].dtype())) o.noise = std::max(o.noise, o.largest * unit_roundoff(a[i].dtype()));
        const bool within = o.difference <= kNoiseFactor * o.noise;
        o.passed = o.difference == 0 || within;
        o.verdict = o.difference == 0 ? "equal" : within ? "within tolerance" : "wrong";
        r.outputs.push_back(std::move(o));
    }
    return r;
}

ModelRun onnx_runtime(const std::string& path, double seconds) {
    return [path, seconds](const NamedInputs& inputs) -> Result<std::vector<Tensor>> {
        const char* own = std::getenv("OPWRIGHT_PYTHON");
        const std::string python = own && *own ? own : "python3";
        std::error_code e;
        std::string folder = (fs::temp_directory_path(e) / "opwright-model-XXXXXX").string();
        if (e || !mkdtemp(folder.data())) return Diagnostic("No folder for temporary files could be made.");
        const std::shared_ptr<void> cleanup(nullptr, [folder](void*) {
            std::error_code ignored;
            fs::remove_all(folder, ignored);
        });
        std::vector<io::NamedTensor> given;
        for (const auto& [n, t] : inputs) given.push_back({n, t});
        OPW_CHECK(io::write_npz(folder + "/in.npz", given));
        OPW_TRY(const auto child, Child::start({python, "-c", std::string(python_file("onnx_worker.py")),
                                                fs::absolute(path).string(), folder},
                                               {"OMP_NUM_THREADS=2"}));
        OPW_TRY(const std::string answer, child->hear(seconds));
        const auto j = nlohmann::json::parse(answer, nullptr, false);
        if (!j.is_object() || !j.contains("outputs")) {
            Diagnostic d(j.is_object() && j.contains("error") ? j["error"].get<std::string>() + "."
                                                              : "The Python process gave no sensible answer.");
            if (j.is_object() && j.contains("missing"))
                d.with_next(fmt::format("{} -m pip install {}", python, j["missing"].get<std::string>()));
            return d;
        }
        OPW_TRY(const auto outputs, io::read_npz(folder + "/out.npz"));
        std::vector<Tensor> r(outputs.size());
        for (const auto& o : outputs) {
            const int i = std::atoi(o.name.c_str());
            if (i >= 0 && static_cast<size_t>(i) < r.size()) r[static_cast<size_t>(i)] = o.tensor;
        }
        return r;
    };
}

}  // namespace opwright::verify
