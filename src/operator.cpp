#include "operator.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "derive/shape.h"

namespace opwright {
namespace {
constexpr size_t kEntries = 32;
}

Operator::Operator(const lang::Library& l, std::string n, lang::Attributes a, const CompileOptions& o, std::shared_ptr<runtime::ThreadPool> pool)
    : library_(l), name_(std::move(n)), attributes_(std::move(a)), options_(o), pool_(std::move(pool)) {}

Result<std::shared_ptr<Operator>> Operator::make(const lang::Library& library, const std::string& name, lang::Attributes attributes,
                                                 const CompileOptions& o, std::shared_ptr<runtime::ThreadPool> pool) {
    const lang::OpDecl* d = library.find(name);
    if (!d) {
        Diagnostic e(fmt::format("There is no operator named '{}'.", name));
        if (const std::string near = did_you_mean(name, library.names()); !near.empty()) e.with_next(fmt::format("Did you mean '{}'?", near));
        else e.with_next("`opwright ops` lists the operators that there are.");
        return e;
    }
    std::shared_ptr<Operator> r(new Operator(library, name, std::move(attributes), o, std::move(pool)));
    r->parameters_ = library.parameters(*d);
    return r;
}

std::vector<lang::Argument> arguments_like(const std::vector<lang::Parameter>& parameters, const std::vector<Tensor>& inputs, bool sizes) {
    std::vector<lang::Argument> r;
    for (size_t i = 0; i < inputs.size(); ++i) {
        lang::Argument a;
        a.present = inputs[i].defined();
        if (a.present) a.dtype = inputs[i].dtype();
        // Arguments past the last parameter belong to it, when it takes several; too many are the library's to refuse.
        const std::string base = parameters.empty() ? "x" : parameters[std::min(i, parameters.size() - 1)].name;
        const std::string name = i < parameters.size() ? base : base + std::to_string(i - parameters.size() + 2);
        for (size_t d = 0; a.present && d < inputs[i].shape().size(); ++d) {
            const int64_t e = inputs[i].shape()[d];
            a.shape.push_back(sizes || e <= 1 ? math::Sym(e) : math::Sym::symbol(fmt::format("{}_{}", name, d), 2));
        }
        r.push_back(std::move(a));
    }
    return r;
}

bool Operator::Entry::serves(const std::vector<Tensor>& inputs) const {
    if (inputs.size() != dtypes.size()) return false;
    for (size_t i = 0; i < inputs.size(); ++i) {
        const Tensor& t = inputs[i];
        if (t.defined() != dtypes[i].has_value()) return false;
        if (!t.defined()) continue;
        const Shape &mine = shapes[i], &given = t.shape();
        if (t.dtype() != *dtypes[i] || given.size() != mine.size()) return false;
        for (size_t d = 0; d < given.size(); ++d)
            if (given[d] != mine[d] && (sized || given[d] <= 1 || mine[d] <= 1)) return false;
    }
    return true;
}

Result<std::shared_ptr<const Operator::Entry>> Operator::entry_for(const std::vector<Tensor>& inputs) {
    const std::lock_guard lock(mutex_);
    for (auto it = entries_.begin(); it != entries_.end(); ++it)
        if ((*it)->serves(inputs)) {
            std::rotate(entries_.begin(), it, it + 1);
            return entries_.front();
        }
    auto e = std::make_shared<Entry>();
    auto program = [&] {
        Stage stage("elaborate");
        auto p = library_.elaborate(name_, arguments_like(parameters_, inputs, false), attributes_);
        if (p.ok()) return p;
        // Some declarations need numbers; and messages with numbers say more.
        e->sized = true;
        return library_.elaborate(name_, arguments_like(parameters_, inputs, true), attributes_);
    }();
    if (!program.ok()) return program.error();
    OPW_TRY(Compiled c, compile(graph_of(*program), options_, *pool_));
    e->compiled = std::make_shared<const Compiled>(std::move(c));
    e->program = std::move(*program);
    for (math::TensorId t : e->program.outputs) e->outputs.push_back(e->program.tensors[t].name);
    for (const Tensor& t : inputs) {
        e->dtypes.push_back(t.defined() ? std::optional(t.dtype()) : std::nullopt);
        e->shapes.push_back(t.shape());
    }
    entries_.insert(entries_.begin(), std::move(e));
    if (entries_.size() > kEntries) entries_.pop_back();
    return entries_.front();
}

Result<Operator::Version> Operator::version(const std::vector<Tensor>& inputs) {
    OPW_TRY(const auto e, entry_for(inputs));
    Version v{e->compiled, {}, e->program};
    for (const Tensor& t : inputs)
        if (t.defined()) v.arguments.push_back(t);
    return v;
}

Result<std::vector<Tensor>> Operator::run(const Entry& e, const std::vector<Tensor>& inputs) {
    if (std::all_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.defined(); }))
        return e.compiled->executable->run(inputs, *pool_);
    std::vector<Tensor> arguments;
    for (const Tensor& t : inputs)
        if (t.defined()) arguments.push_back(t);
    return e.compiled->executable->run(arguments, *pool_);
}

Result<std::vector<Tensor>> Operator::run(const std::vector<Tensor>& inputs) {
    OPW_TRY(const auto e, entry_for(inputs));
    return run(*e, inputs);
}

Result<Operator::Named> Operator::run_named(const std::vector<Tensor>& inputs) {
    OPW_TRY(const auto e, entry_for(inputs));
    OPW_TRY(auto tensors, run(*e, inputs));
    return Named{e->outputs, std::move(tensors)};
}

}  // namespace opwright
