#include "verify/model_against.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
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
double distance(double a, double b) {
    if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
    return std::isfinite(a) && std::isfinite(b) ? std::fabs(a - b) : INFINITY;
}
bool alike(const Tensor& a, const Tensor& b) { return a.dtype() == b.dtype() && a.shape() == b.shape(); }

NamedInputs with_floats(const NamedInputs& given, const std::function<void(Tensor&)>& change) {
    NamedInputs r;
    for (const auto& [n, t] : given) {
        Tensor x = t.clone();
        if (is_float(x.dtype())) change(x);
        r[n] = std::move(x);
    }
    return r;
}

// Adds what one value set shows of one output.
void compare_output(OutputComparison& o, const Tensor& a, const Tensor& b, const Tensor& exact, const Tensor& move,
                    const std::string& set) {
    double squares = 0;
    int64_t finite = 0;
    for (int64_t i = 0; i < move.size(); ++i)
        if (const double m = move.get(i); std::isfinite(m)) {
            squares += m * m;
            ++finite;
        }
    const double typical = finite && is_float(a.dtype()) ? std::sqrt(squares / static_cast<double>(finite)) : 0;
    for (int64_t i = 0; i < a.size(); ++i) {
        const double x = a.get(i), y = b.get(i), e = exact.get(i);
        if (std::isfinite(x)) o.largest = std::max(o.largest, std::fabs(x));
        o.error = std::max(o.error, distance(x, e));
        o.other_error = std::max(o.other_error, distance(y, e));
        const double difference = distance(x, y);
        if (difference == 0) continue;
        const double allowed = 2 * std::max(move.get(i), typical);
        const double share = std::isinf(allowed) ? 0 : difference / allowed;  // a number by 0: infinite
        const bool ill = std::isinf(allowed);
        const std::string verdict = ill ? "ill-conditioned" : share <= 1 ? "within tolerance" : "wrong";
        if (verdict == "wrong") o.passed = false;
        if (o.verdict == "equal" || (o.verdict == "within tolerance" && ill) || verdict == "wrong") o.verdict = verdict;
        if (o.difference == 0 || share > o.share) {
            o.difference = difference;
            o.allowed = allowed;
            o.share = share;
            o.where = unravel(i, a.shape());
            o.set = set;
        }
    }
}
}  // namespace

ModelNoiseOf noise_of(std::shared_ptr<Model> unfused, uint64_t seed) {
    return [unfused, seed](const NamedInputs& inputs) -> Result<ModelNoise> {
        OPW_TRY(const auto version, unfused->version(inputs));
        OPW_TRY(const auto arguments, unfused->arguments(*version, inputs));
        return model_noise(*version, arguments, unfused->pool(), seed);
    };
}

std::vector<ValueSet> value_sets(const NamedInputs& given, const std::string& first, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<ValueSet> r{{first, given}};
    r.push_back({"shuffled", with_floats(given, [&](Tensor& t) {
                     for (int64_t i = t.size() - 1; i > 0; --i) {
                         const auto k = static_cast<int64_t>(random() % static_cast<uint64_t>(i + 1));
                         const double v = t.get(i);
                         t.set(i, t.get(k));
                         t.set(k, v);
                     }
                 })});
    r.push_back({"ties", with_floats(given, [](Tensor& t) {
                     double most = 0;
                     for (int64_t i = 0; i < t.size(); ++i)
                         if (std::isfinite(t.get(i))) most = std::max(most, std::fabs(t.get(i)));
                     const double step = std::exp2(std::floor(std::log2(most > 0 ? most : 1))) / 2;
                     for (int64_t i = 0; i < t.size(); ++i)
                         if (std::isfinite(t.get(i))) t.set(i, std::round(t.get(i) / step) * step);
                 })});
    r.push_back({"zeros", with_floats(given, [](Tensor& t) {
                     for (int64_t i = 0; i < t.size(); ++i) t.set(i, 0);
                 })});
    return r;
}

bool ModelComparison::passed() const {
    return !outputs.empty() && std::all_of(outputs.begin(), outputs.end(), [](const auto& o) { return o.passed; });
}

Result<ModelComparison> compare_runs(const std::vector<std::string>& names, const std::vector<ValueSet>& sets,
                                     const ModelRun& mine, const ModelRun& other, const ModelNoiseOf& noise,
                                     double seconds) {
    const auto start = std::chrono::steady_clock::now();
    ModelComparison r;
    for (const ValueSet& set : sets) {
        const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
        if (!r.sets.empty() && passed.count() > seconds) break;
        OPW_TRY(const auto a, mine(set.inputs));
        OPW_TRY(const auto b, other(set.inputs));
        if (a.size() != b.size())
            return Diagnostic(fmt::format("One has {} outputs, the other {}.", a.size(), b.size()), {},
                              "Compare models of the same inputs and outputs.");
        OPW_TRY(const ModelNoise n, noise(set.inputs));
        r.sets.push_back(set.name);
        for (size_t i = 0; i < a.size(); ++i) {
            if (i == r.outputs.size())
                r.outputs.push_back({.name = i < names.size() ? names[i] : fmt::format("output {}", i),
                                     .verdict = "equal"});
            OutputComparison& o = r.outputs[i];
            if (!alike(a[i], b[i])) {
                o.note = fmt::format("{}{} against {}{}", name(a[i].dtype()), to_string(a[i].shape()),
                                     name(b[i].dtype()), to_string(b[i].shape()));
                o.verdict = "wrong";
                o.passed = false;
                continue;
            }
            compare_output(o, a[i], b[i], n.exact[i], n.move[i], set.name);
            if (!o.passed && n.unbounded && o.note.empty())
                o.note = fmt::format("{} elements between the kernels have no error bound, the first in {}: the model "
                                     "may be ill-conditioned there",
                                     n.unbounded, n.unbounded_at);
        }
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
