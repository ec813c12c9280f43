// Functions of Python files, called in an interpreter of their own.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "verify/foreign_subject.h"

namespace opwright::verify {
std::string_view python_file(std::string_view name);  // of python/, embedded

namespace fs = std::filesystem;
using math::Program;
using nlohmann::json;

namespace {

std::string interpreter() {
    const char* own = std::getenv("OPWRIGHT_PYTHON");
    return own && *own ? own : "python3";
}

class PythonProcess {
public:
    PythonProcess(Against a, const ForeignOptions& o) : against_(std::move(a)), options_(o) {}

    // Errors of the file, of the function and of what they need.
    Status start() {
        OPW_TRY(child_, Child::start({interpreter(), "-c", std::string(python_file("function_worker.py")),
                                      fs::absolute(against_.file).string(), against_.symbol},
                                     {"OMP_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1"}));
        const auto first = child_->hear(options_.start_seconds);
        if (!first.ok()) {
            Diagnostic d = first.error();
            child_.reset();
            d.message = fmt::format("The Python process for '{}' {}.", against_.file,
                                    d.message.substr(std::string("crashed: it ").size()));
            return d.with_next(fmt::format("Try `{} {}`.", interpreter(), against_.file));
        }
        const json j = json::parse(*first, nullptr, false);
        if (j.is_object() && j.contains("ready")) {
            about_ = j["ready"];
            torch_ = j["torch"];
            return ok_status();
        }
        child_.reset();
        Diagnostic d(j.is_object() && j.contains("error") ? j["error"].get<std::string>() + "."
                                                          : "The Python process gave no sensible answer.");
        if (j.is_object() && j.contains("missing"))
            d.message.insert(d.message.size() - 1, fmt::format(", which {} does not have", interpreter())),
                d.with_next(
                    fmt::format("{0} -m pip install {1}; or name an interpreter that has it: OPWRIGHT_PYTHON=PATH.",
                                interpreter(), j["missing"].get<std::string>()));
        return d;
    }
    Result<json> ask(const json& request) {
        if (!child_) OPW_CHECK(start());
        const auto r = child_->ask(request.dump(), first_ ? options_.start_seconds : options_.seconds);
        if (!r.ok()) {
            child_.reset();
            return r.error();
        }
        first_ = false;
        json j = json::parse(*r, nullptr, false);
        if (!j.is_object()) return Diagnostic("crashed: it wrote over the answers of its process");
        if (j.contains("error")) return Diagnostic(j["error"].get<std::string>());
        return j;
    }
    const std::string& about() const { return about_; }
    bool torch() const { return torch_; }

private:
    Against against_;
    ForeignOptions options_;
    std::unique_ptr<Child> child_;
    std::string about_;
    bool torch_ = false, first_ = true;
};

// Values that Python has; sizes that are symbols come with each call.
json python_value(const lang::Attribute& a, const math::SymValues& sizes) {
    struct Visitor {
        const math::SymValues& sizes;
        json operator()(const math::Sym& s) const { return evaluate(s, sizes).value_or(0); }
        json operator()(DType t) const { return std::string(opwright::name(t)); }
        json operator()(const std::vector<math::Sym>& v) const {
            json r = json::array();
            for (const math::Sym& s : v) r.push_back((*this)(s));
            return r;
        }
        json operator()(double v) const { return v; }
        json operator()(bool v) const { return v; }
        json operator()(const std::string& v) const { return v; }
        json operator()(const std::vector<double>& v) const { return v; }
        json operator()(const std::vector<std::string>& v) const { return v; }
    };
    return std::visit(Visitor{sizes}, a);
}

class PythonSubject final : public Subject {
public:
    PythonSubject(std::shared_ptr<PythonProcess> process, std::shared_ptr<ForeignMemory> memory, const Program& p,
                  lang::Attributes attributes)
        : process_(std::move(process)), memory_(std::move(memory)), attributes_(std::move(attributes)) {
        for (math::TensorId t : p.inputs) inputs_.push_back(p.tensors[t].name);
        for (math::TensorId t : p.outputs) outputs_.push_back(p.tensors[t].name);
    }
    Status run(const math::SymValues& sizes, std::span<const View> inputs, std::span<const View> outputs) override {
        std::vector<View> views(inputs.begin(), inputs.end());
        views.insert(views.end(), outputs.begin(), outputs.end());
        OPW_TRY(const auto places, memory_->put(views));
        json request{{"path", memory_->path()},
                     {"inputs", json::array()},
                     {"outputs", json::array()},
                     {"attributes", json::object()}};
        for (size_t i = 0; i < views.size(); ++i) {
            const bool in = i < inputs.size();
            request[in ? "inputs" : "outputs"].push_back({{"name", in ? inputs_[i] : outputs_[i - inputs.size()]},
                                                          {"type", name(views[i].dtype)},
                                                          {"shape", views[i].shape},
                                                          {"strides", views[i].strides},
                                                          {"begin", places[i].begin},
                                                          {"end", places[i].end},
                                                          {"offset", places[i].offset}});
        }
        for (const auto& [n, a] : attributes_) request["attributes"][n] = python_value(a, sizes);
        OPW_TRY(const json reply, process_->ask(request));
        for (const json& r : reply["remarks"]) {
            const auto text = r.get<std::string>();
            if (std::find(remarks_.begin(), remarks_.end(), text) == remarks_.end()) remarks_.push_back(text);
        }
        memory_->take(views);
        return ok_status();
    }
    std::vector<Layout> layouts() const override {
        std::vector<Layout> r = all_layouts();
        if (process_->torch()) std::erase(r, Layout::Reversed);  // torch has none
        return r;
    }
    std::vector<std::string> remarks() const override { return remarks_; }

private:
    std::shared_ptr<PythonProcess> process_;
    std::shared_ptr<ForeignMemory> memory_;
    lang::Attributes attributes_;
    std::vector<std::string> inputs_, outputs_, remarks_;
};
}  // namespace

Result<Against> parse_against(const std::string& text) {
    const size_t colon = text.rfind(':');
    Against a{text.substr(0, colon), colon == std::string::npos ? "" : text.substr(colon + 1)};
    a.python = a.file.size() > 3 && a.file.ends_with(".py");
    const bool library = a.file.find(".so") != std::string::npos;
    if (a.symbol.empty() || !(a.python || library))
        return Diagnostic(fmt::format("'{}' names no kernel.", text), {},
                          "Write kernel.py:function, or lib.so:symbol.");
    std::error_code e;
    if (!fs::is_regular_file(a.file, e)) {
        Diagnostic d(fmt::format("There is no file '{}'.", a.file));
        return library ? d.with_next("Build the shared library first: cc -shared -fPIC -O2 -o lib.so kernel.c.") : d;
    }
    return a;
}

Result<PythonFunction> python_function(const Against& a, const ForeignOptions& o) {
    auto process = std::make_shared<PythonProcess>(a, o);
    OPW_CHECK(process->start());
    OPW_TRY(auto memory, ForeignMemory::make());
    PythonFunction r{.about = process->about()};
    r.interpreted = r.about.find("interpreter") != std::string::npos;
    r.subject = [process, memory](const lang::Example& e) -> Compile {
        return [process, memory, attributes = e.attributes](const Program& p) -> Result<Compiled> {
            return Compiled(std::make_shared<PythonSubject>(process, memory, p, attributes));
        };
    };
    return r;
}

}  // namespace opwright::verify
