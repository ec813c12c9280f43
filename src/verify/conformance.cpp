#include "verify/conformance.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <set>

#include "graph/onnx/tensor_proto.h"
#include "io/file.h"
#include "model.h"
#include "runtime/thread_pool.h"

namespace opwright::verify {
namespace {
namespace fs = std::filesystem;

CaseResult result(CaseVerdict v, std::string reason) { return {"", v, std::move(reason), 0}; }

std::string one_line(const Diagnostic& d) {
    std::string r = d.message;
    std::replace(r.begin(), r.end(), '\n', ' ');
    return r;
}

// Empty where the tensors agree.
std::string difference(const Tensor& got, const Tensor& expected, const CaseOptions& o) {
    if (got.dtype() != expected.dtype())
        return fmt::format("is {} and should be {}", name(got.dtype()), name(expected.dtype()));
    if (got.shape() != expected.shape())
        return fmt::format("has shape {} and should have {}", to_string(got.shape()), to_string(expected.shape()));
    int64_t bad = 0, first = -1;
    for (int64_t i = 0; i < got.size(); ++i) {
        bool same;
        if (is_float(got.dtype())) {
            const double a = got.get(i), e = expected.get(i);
            if (std::isnan(e) || std::isnan(a)) same = std::isnan(e) && std::isnan(a);
            else if (std::isinf(e) || std::isinf(a)) same = a == e;
            else same = std::fabs(a - e) <= o.atol + o.rtol * std::fabs(e);
        } else {
            same = got.get_int(i) == expected.get_int(i);
        }
        if (!same && ++bad == 1) first = i;
    }
    if (bad == 0) return "";
    return fmt::format("differs in {} of {} elements; element {} is {:.9g} and should be {:.9g}", bad, got.size(), first, got.get(first), expected.get(first));
}

std::vector<std::string> files(const fs::path& set, const std::string& kind) {
    std::vector<std::string> r;
    for (size_t k = 0;; ++k) {
        fs::path p = set / fmt::format("{}_{}.pb", kind, k);
        if (!fs::exists(p)) return r;
        r.push_back(p.string());
    }
}

Result<graph::onnx::NamedTensorProto> read(const std::string& path) {
    OPW_TRY(const std::string bytes, io::read_file(path));
    return graph::onnx::tensor_from_proto(bytes);
}

CaseResult run_set(Model& model, const fs::path& set, const CaseOptions& o) {
    NamedInputs inputs;
    const std::vector<std::string> in = files(set, "input"), out = files(set, "output");
    if (out.empty()) return result(CaseVerdict::Unsupported, "the data set holds no expected output");
    for (size_t k = 0; k < in.size(); ++k) {
        auto t = read(in[k]);
        if (!t.ok()) return result(CaseVerdict::Unsupported, fmt::format("input {}: {}", k, one_line(t.error())));
        if (k >= model.inputs().size()) return result(CaseVerdict::Wrong, "the model has fewer inputs than the data set");
        const bool named = std::any_of(model.inputs().begin(), model.inputs().end(), [&](auto& v) { return v.name == t->name; });
        inputs[named ? t->name : model.inputs()[k].name] = std::move(t->tensor);
    }
    auto version = model.version(inputs);
    if (!version.ok()) {
        std::string reason = one_line(version.error());
        for (const auto& u : model.unsupported()) reason = fmt::format("{}: {}", u.op_type, u.reason);
        return result(CaseVerdict::Unsupported, std::move(reason));
    }
    auto got = model.run(inputs);
    if (!got.ok()) return result(CaseVerdict::Wrong, "refused at run time: " + one_line(got.error()));
    if (got->size() != out.size()) return result(CaseVerdict::Wrong, fmt::format("{} outputs, and {} are expected", got->size(), out.size()));
    for (size_t k = 0; k < out.size(); ++k) {
        auto t = read(out[k]);
        if (!t.ok()) return result(CaseVerdict::Unsupported, fmt::format("output {}: {}", k, one_line(t.error())));
        if (const std::string d = difference((*got)[k], t->tensor, o); !d.empty())
            return result(CaseVerdict::Wrong, fmt::format("output {} {}", model.outputs()[k].name, d));
    }
    return result(CaseVerdict::Pass, "");
}
}  // namespace

std::string_view name(CaseVerdict v) {
    switch (v) {
        case CaseVerdict::Pass: return "pass";
        case CaseVerdict::Wrong: return "wrong";
        case CaseVerdict::Crash: return "crash";
        case CaseVerdict::Unsupported: return "unsupported";
        case CaseVerdict::Timeout: return "timeout";
    }
    return "";
}

std::vector<std::string> find_cases(const std::vector<std::string>& folders) {
    std::set<std::string> found;
    std::error_code e;
    for (const std::string& f : folders) {
        if (fs::exists(fs::path(f) / "model.onnx", e)) {
            found.insert(f);
            continue;
        }
        for (auto it = fs::recursive_directory_iterator(f, fs::directory_options::skip_permission_denied, e); it != fs::recursive_directory_iterator(); it.increment(e))
            if (it->path().filename() == "model.onnx") found.insert(it->path().parent_path().string());
    }
    return {found.begin(), found.end()};
}

CaseResult run_case(const std::string& folder, const CaseOptions& o) {
    const auto start = std::chrono::steady_clock::now();
    const auto finish = [&](CaseResult r) {
        r.name = fs::path(folder).filename().string();
        r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        return r;
    };
    auto model = Model::load((fs::path(folder) / "model.onnx").string(), o.compile, std::make_shared<runtime::ThreadPool>(o.threads));
    if (!model.ok()) return finish(result(CaseVerdict::Wrong, one_line(model.error())));
    for (const auto& v : (*model)->inputs())
        if (!v.unsupported.empty()) return finish(result(CaseVerdict::Unsupported, fmt::format("input {} is {}", v.name, v.unsupported)));
    for (const auto& v : (*model)->outputs())
        if (!v.unsupported.empty()) return finish(result(CaseVerdict::Unsupported, fmt::format("output {} is {}", v.name, v.unsupported)));
    size_t sets = 0;
    for (;; ++sets) {
        const fs::path set = fs::path(folder) / fmt::format("test_data_set_{}", sets);
        if (!fs::is_directory(set)) break;
        CaseResult r = run_set(**model, set, o);
        if (r.verdict != CaseVerdict::Pass) return finish(std::move(r));
    }
    if (sets == 0) return finish(result(CaseVerdict::Unsupported, "there is no data set to compare with"));
    return finish(result(CaseVerdict::Pass, ""));
}

}  // namespace opwright::verify
