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

Result<std::pair<math::Program, std::shared_ptr<const Compiled>>> Operator::compiled_for(const std::vector<Tensor>& inputs) {
    const auto key_of = [&](bool sizes) {
        std::string k = sizes ? "sizes" : "symbols";
        for (const Tensor& t : inputs) {
            if (!t.defined()) {
                k += ";-";
                continue;
            }
            k += ";" + std::string(opwright::name(t.dtype()));
            for (int64_t e : t.shape()) k += sizes || e <= 1 ? "," + std::to_string(e) : ",n";
        }
        return k;
    };
    const std::lock_guard lock(mutex_);
    const std::string symbolic = key_of(false), sized = key_of(true);
    for (auto it = entries_.begin(); it != entries_.end(); ++it)
        if (it->key == symbolic || it->key == sized) {
            std::rotate(entries_.begin(), it, it + 1);
            return std::pair(entries_.front().program, entries_.front().compiled);
        }
    std::string key = symbolic;
    auto program = [&] {
        Stage stage("elaborate");
        auto p = library_.elaborate(name_, arguments_like(parameters_, inputs, false), attributes_);
        if (p.ok()) return p;
        // Some declarations need numbers; and messages with numbers say more.
        key = sized;
        return library_.elaborate(name_, arguments_like(parameters_, inputs, true), attributes_);
    }();
    if (!program.ok()) return program.error();
    OPW_TRY(Compiled c, compile(graph_of(*program), options_, *pool_));
    entries_.insert(entries_.begin(), {key, *program, std::make_shared<const Compiled>(std::move(c))});
    if (entries_.size() > kEntries) entries_.pop_back();
    return std::pair(entries_.front().program, entries_.front().compiled);
}

Result<Operator::Version> Operator::version(const std::vector<Tensor>& inputs) {
    OPW_TRY(auto found, compiled_for(inputs));
    Version v{found.second, {}, std::move(found.first)};
    for (const Tensor& t : inputs)
        if (t.defined()) v.arguments.push_back(t);
    return v;
}

Result<std::vector<Tensor>> Operator::run(const std::vector<Tensor>& inputs) {
    OPW_TRY(const Version v, version(inputs));
    return v.compiled->executable->run(v.arguments, *pool_);
}

}  // namespace opwright
