// Declarations and operators through the C ABI.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/handles.h"
#include "explain/operator_report.h"
#include "runtime/thread_pool.h"

using namespace opwright;
using namespace opwright::api;

namespace {

std::shared_ptr<const lang::Library> library_of(const opw_library* l) {
    if (l) return l->library;
    return {&lang::Library::standard(), [](auto*) {}};
}

std::string name_of(const lang::Library& l, const lang::OpDecl* d) {
    for (const std::string& n : l.names())
        if (l.find(n) == d) return n;
    return "";
}

// What can be said against a declaration is said when it is parsed, and not when it first runs: its examples, or, where
// it has none and no attribute that might need a value, its symbolic form, must elaborate.
void check(const lang::Library& l, const lang::OpDecl& d, const std::string& name) {
    const auto examples = value_or_refuse(l.examples(d), OPW_MALFORMED);
    for (const lang::Example& e : examples) value_or_refuse(l.elaborate(name, e.arguments, e.attributes), OPW_MALFORMED);
    if (examples.empty() && l.attribute_names(d).empty()) value_or_refuse(l.elaborate_symbolic(name), OPW_MALFORMED);
}

// Tensors in the order of the parameters. A last parameter that takes several gets all that carry its name.
std::vector<Tensor> arranged(const Operator& op, const opw_tensor* inputs, size_t count) {
    require(inputs || count == 0, "The inputs must not be NULL.");
    const auto& parameters = op.parameters();
    std::vector<Tensor> r;
    r.reserve(std::max(count, parameters.size()));
    for (size_t i = 0; i < count; ++i) {
        size_t at = i;
        std::string n = i < parameters.size() ? parameters[i].name : std::to_string(i);
        if (inputs[i].name) {
            n = inputs[i].name;
            const auto it = std::find_if(parameters.begin(), parameters.end(), [&](const auto& p) { return p.name == n; });
            if (it == parameters.end()) {
                std::vector<std::string> names;
                for (const lang::Parameter& p : parameters) names.push_back(p.name);
                const std::string near = did_you_mean(n, names);
                refuse(OPW_INVALID_ARGUMENT, Diagnostic(fmt::format("'{}' has no input named '{}'.", op.name(), n))
                                                 .with_next(near.empty() ? fmt::format("Its inputs are: {}.", fmt::join(names, ", "))
                                                                         : fmt::format("Did you mean '{}'?", near)));
            }
            at = static_cast<size_t>(it - parameters.begin());
            if (parameters[at].variadic) at = std::max(at, r.size());  // the next of several
        }
        if (at >= r.size()) r.resize(at + 1);
        if (r[at].defined()) refuse(OPW_INVALID_ARGUMENT, Diagnostic(fmt::format("Input '{}' of '{}' is given twice.", n, op.name())));
        r[at] = borrowed(inputs[i], "'" + n + "'");
    }
    for (size_t i = 0; i < parameters.size(); ++i)
        if ((i >= r.size() || !r[i].defined()) && !parameters[i].optional && !parameters[i].variadic)
            refuse(OPW_INVALID_ARGUMENT, Diagnostic(fmt::format("Input '{}' of '{}' was not given.", parameters[i].name, op.name())));
    return r;
}
}  // namespace

extern "C" {

opw_status opw_library_parse(const char* text, const char* name, opw_library** library, opw_error** error) {
    return guarded(error, [&] {
        require(text && library, "The text and the place for the library must not be NULL.");
        auto h = std::make_unique<opw_library>();
        h->library = std::make_shared<lang::Library>();
        const std::string file = name ? name : "<input>";
        if (Status s = h->library->add(std::make_shared<const Source>(Source{file, text})); !s.ok()) refuse(OPW_MALFORMED, s.error());
        for (const lang::OpDecl* d : h->library->declarations_of(file)) check(*h->library, *d, name_of(*h->library, d));
        for (const lang::OpDecl* d : h->library->declarations_of(file)) h->names.push_back(name_of(*h->library, d));
        *library = h.release();
    });
}
void opw_library_free(opw_library* l) { delete l; }
size_t opw_library_count(const opw_library* l) { return l ? l->names.size() : 0; }
const char* opw_library_operator(const opw_library* l, size_t i) { return l && i < l->names.size() ? l->names[i].c_str() : nullptr; }

opw_status opw_library_explain_json(const opw_library* l, const char* name, char** json, opw_error** error) {
    return guarded(error, [&] {
        require(name && json, "The operator's name and the place for the text must not be NULL.");
        const auto r = value_or_refuse(explain::report(*library_of(l), name), OPW_INVALID_ARGUMENT);
        *json = copied(explain::to_json(r).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    });
}

opw_status opw_operator_compile(const opw_library* l, const char* name, const char* attributes, const opw_options* options, opw_operator** op,
                                opw_error** error) {
    return guarded(error, [&] {
        require(name && op, "The operator's name and the place for the operator must not be NULL.");
        auto h = std::make_unique<opw_operator>();
        h->library = library_of(l);
        lang::Attributes a;
        if (const lang::OpDecl* d = h->library->find(name); d && attributes && *attributes)
            a = value_or_refuse(h->library->parse_attributes(*d, std::make_shared<const Source>(Source{"attributes", attributes})), OPW_INVALID_ARGUMENT);
        h->op = value_or_refuse(Operator::make(*h->library, name, std::move(a), compile_options(options), make_pool(options)), OPW_INVALID_ARGUMENT);
        *op = h.release();
    });
}

opw_status opw_operator_run(opw_operator* h, const opw_tensor* inputs, size_t count, opw_tensors** outputs, opw_error** error) {
    return guarded(error, [&] {
        require(h && outputs, "The operator and the place for the outputs must not be NULL.");
        const std::lock_guard lock(h->mutex);
        auto result = value_or_refuse(h->op->run_named(arranged(*h->op, inputs, count)), OPW_INVALID_ARGUMENT);
        *outputs = new opw_tensors{std::move(result.names), std::move(result.tensors)};
    });
}
void opw_operator_free(opw_operator* h) { delete h; }

}  // extern "C"
