#include "lang/declaration_names.h"

#include <algorithm>
#include <cctype>

#include "lang/expression_parser.h"
#include "math/functions.h"

namespace opwright::lang {
using namespace math;
namespace {

std::string legal(const std::string& s) {
    std::string r;
    for (const char c : s) r += std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
    if (r.empty() || std::isdigit(static_cast<unsigned char>(r[0]))) r = "v" + r;
    if (std::isupper(static_cast<unsigned char>(r[0])) && r.size() == 1)
        r[0] = static_cast<char>(std::tolower(r[0]));  // a dtype variable
    return r;
}
}  // namespace

std::string DeclarationNames::take(const std::string& wanted) {
    const auto bad = [&](const std::string& n) { return taken_.count(n) || is_reserved(n) || fn_from_name(n); };
    std::string n = legal(wanted);
    for (int i = 1; bad(n); ++i) n = legal(wanted) + "_" + std::to_string(i);
    taken_.insert(n);
    return n;
}

DeclarationNames::DeclarationNames(const Program& p) : p_(p), op_(legal(p.name)), tensors_(p.tensors.size()) {
    for (TensorId t : p.inputs)
        for (const Sym& s : p.tensors[t].shape)
            if (s.kind() == SymKind::Symbol) dims_.insert(s.symbol_name());
    for (const std::string& s : p.symbols()) {
        taken_.insert(s);
        if (!dims_.count(s)) attributes_.push_back(s);
    }
    taken_.insert(op_);
    for (TensorId t = 0; t < p.tensors.size(); ++t) tensors_[t] = take(p.tensors[t].name);
}

std::string DeclarationNames::index_name(const Sym& extent, const std::string& hint, bool plain,
                                         std::set<std::string>& used) {
    if (plain && extent.kind() == SymKind::Symbol && dims_.count(extent.symbol_name()) &&
        used.insert(extent.symbol_name()).second)
        return extent.symbol_name();
    for (const auto& [name, e] : ranges_)
        if (e == extent && used.insert(name).second) return name;
    const std::string n = take(hint.size() <= 2 ? hint : hint.substr(0, 1));
    ranges_.emplace_back(n, extent);
    used.insert(n);
    return n;
}

std::vector<std::string> DeclarationNames::over(const std::vector<Sym>& shape) {
    std::set<std::string> used;
    std::vector<std::string> r;
    for (const Sym& s : shape) r.push_back(s.is(1) ? "0" : index_name(s, "i", true, used));
    return r;
}

void DeclarationNames::begin(const Equation& q) {
    equation_.clear();
    // Variables in order, and whether each stands plainly only in dims of its own extent.
    std::vector<VarId> order = q.vars;
    std::map<VarId, bool> other;
    std::vector<bool> seen(p_.expr_count());
    const auto meet = [&](TensorId t, size_t d, ExprId at) {
        const math::Expr& e = p_.expr(at);
        if (e.kind == math::ExprKind::Index && !(p_.tensors[t].shape[d] == p_.vars[e.ref].extent)) other[e.ref] = true;
    };
    std::vector<ExprId> stack = q.at;
    stack.push_back(q.rhs);
    for (size_t d = 0; d < q.at.size(); ++d) meet(q.lhs, d, q.at[d]);
    while (!stack.empty()) {
        const ExprId id = stack.back();
        stack.pop_back();
        if (seen[id]) continue;
        seen[id] = true;
        const math::Expr& e = p_.expr(id);
        if (e.kind == math::ExprKind::Load || e.kind == math::ExprKind::Inside)
            for (size_t d = 0; d < p_.tensors[e.ref].shape.size(); ++d) meet(e.ref, d, e.args[d]);
        if (e.kind == math::ExprKind::Reduce) order.insert(order.end(), e.vars.begin(), e.vars.end());
        stack.insert(stack.end(), e.args.begin(), e.args.end());
    }
    std::set<std::string> used;
    for (VarId v : order)
        if (!equation_.count(v))
            equation_[v] = index_name(p_.vars[v].extent, legal(p_.vars[v].name), !other.count(v), used);
}

}  // namespace opwright::lang
