// Arguments made up from a declaration, every named extent a symbol.
#include <algorithm>

#include "lang/bind.h"
#include "lang/elaborator.h"

namespace opwright::lang {

using math::Sym;
using Kind = Value::Kind;

Result<std::vector<std::vector<BoundArg>>> Elaborator::symbolic_arguments(
    const std::vector<std::vector<BoundArg>>& like, int pack_rank) {
    std::map<std::string, int> lengths;
    if (!like.empty()) OPW_CHECK(bind_ranks(like, lengths, {}));
    const auto pack_length = [&](const Expr& item, const std::string& n) -> Result<int> {
        if (const auto l = lengths.find(n); l != lengths.end()) return l->second;
        OPW_TRY(auto stated, stated_rank(item, lengths));
        const int k = stated.value_or(pack_rank);
        lengths[n] = k;
        Dim d;
        d.pack = true;
        d.extents.assign(static_cast<size_t>(k), Sym::symbol("?"));
        d.begins.assign(static_cast<size_t>(k), Sym(0));
        dims_[n] = std::move(d);
        return k;
    };
    std::vector<std::vector<BoundArg>> out(op_.params.size());
    for (size_t i = 0; i < op_.params.size(); ++i) {
        const Param& p = op_.params[i];
        const size_t count = !like.empty() ? like[i].size() : p.variadic ? 2 : 1;
        for (size_t t = 0; t < count; ++t) {
            BoundArg a;
            if (!like.empty()) {
                a.present = like[i][t].present;
                a.type = like[i][t].type;
            } else {
                const std::string var = p.type ? p.type.name : "T";
                if (auto fixed = dtype_word(var))
                    a.type = *fixed;
                else if (const auto v = values_.find(var); v != values_.end() && v->second.is(Kind::Type))
                    a.type = v->second.type;
                for (const TypeConstraint& c : op_.constraints) {
                    if (c.variable != var || allowed(c, DType::F32)) continue;
                    for (DType d : {DType::I64, DType::I32, DType::U8, DType::Bool, DType::F64, DType::F16, DType::BF16,
                                    DType::I8, DType::I16, DType::U16, DType::U32, DType::U64})
                        if (allowed(c, d)) {
                            a.type = d;
                            break;
                        }
                }
                if (p.type.accumulate) a.type = accumulate_type(a.type);
            }
            for (const Expr* d : p.dims) {
                const Expr& item = d->kind == ExprKind::Broadcast ? *d->args[0] : *d;
                if (item.kind != ExprKind::Expand) continue;
                const Expr& of = *item.args[0];
                if (of.kind == ExprKind::Name && values_.count(of.name)) {
                    if (!values_.at(of.name).is(Kind::List))
                        return error(*d,
                                     fmt::format("`{}` is {}, where a list of extents is needed.", of.name,
                                                 values_.at(of.name).kind_name()),
                                     "Broadcast against a pack, or an attribute of kind ints given as a list.");
                    lengths[of.name] = static_cast<int>(values_.at(of.name).list->size());
                } else if (of.kind == ExprKind::Name) {
                    OPW_CHECK(pack_length(item, of.name));
                } else if (of.kind == ExprKind::Call && of.name == "merge" && of.args.size() == 3 &&
                           of.args[0]->kind == ExprKind::Name && of.args[1]->kind == ExprKind::Name) {
                    OPW_TRY(auto axes, list_argument(*of.args[2]));
                    lengths.emplace(of.args[1]->name, static_cast<int>(axes.size()));
                    OPW_CHECK(pack_length(item, of.args[0]->name));
                } else {
                    return error(*d, fmt::format("`{}` is no form of dims that a parameter can have.", source_of(*d)),
                                 "The forms are m, 3, ~m, m..., ~m..., m...(rank) and merge(o, r, positions)....");
                }
            }
            OPW_TRY(auto slots, slots_of(p, 1 << 20, lengths));
            for (const Slot& s : slots) {
                if (s.key.empty()) {
                    a.shape.emplace_back(0);  // an expression of others: below
                    if (const auto m = multiple_of_name(*s.dim);
                        m && !values_.count(m->name) && !dims_.count(m->name)) {
                        Dim d;
                        d.extents = {Sym::symbol(m->name)};
                        d.begins = {Sym(0)};
                        dims_[m->name] = std::move(d);
                    }
                    continue;
                }
                std::string n = s.key;
                n.erase(std::remove(n.begin(), n.end(), '#'), n.end());
                if (s.each) n += std::to_string(t);
                a.shape.push_back(Sym::symbol(n));
                if (s.each) continue;
                const size_t hash = s.key.find('#');
                if (const auto v = values_.find(s.key.substr(0, hash)); v != values_.end()) {
                    a.shape.back() =
                        v->second.list->at(std::stoul(s.key.substr(hash + 1))).as_sym().value_or(a.shape.back());
                    continue;
                }
                Dim& d = dims_[s.key.substr(0, hash)];
                d.pack = hash != std::string::npos;
                const size_t k = d.pack ? std::stoul(s.key.substr(hash + 1)) : 0;
                if (d.extents.size() <= k) d.extents.resize(k + 1);
                d.extents[k] = a.shape.back();
            }
            out[i].push_back(std::move(a));
        }
    }
    for (size_t i = 0; i < op_.params.size(); ++i)
        for (BoundArg& a : out[i]) {
            OPW_TRY(auto slots, slots_of(op_.params[i], 1 << 20, lengths));
            for (size_t k = 0; k < slots.size(); ++k) {
                if (!slots[k].key.empty()) continue;
                OPW_TRY(Value v, eval_static(*slots[k].dim));
                const auto s = v.as_sym();
                if (!s)
                    return error(*slots[k].dim,
                                 fmt::format("`{}` is {} and no extent.", source_of(*slots[k].dim), v.kind_name()),
                                 "An extent is an integer of extents and attributes.");
                a.shape[k] = *s;
            }
        }
    return out;
}

}  // namespace opwright::lang
