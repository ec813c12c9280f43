#include "loop_faults.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <unordered_map>

#include "loop/builder.h"

namespace opwright::loop {
namespace {

// Rebuilds every expression of every statement; `change` answers for the nodes it knows, with their operands rebuilt.
void rebuild(Program& p, const std::function<std::optional<Node>(Node)>& change) {
    std::unordered_map<uint32_t, ExprId> done;
    const std::function<ExprId(ExprId)> visit = [&](ExprId id) -> ExprId {
        if (id == ExprId::none) return id;
        if (const auto it = done.find(static_cast<uint32_t>(id)); it != done.end()) return it->second;
        Node n = p.node(id);
        for (ExprId& a : n.args.ids) a = visit(a);
        if (const auto other = change(n)) n = *other;
        return done[static_cast<uint32_t>(id)] = p.intern(n).id;
    };
    for (Stmt& s : p.stmts)
        std::visit(
            [&]<class S>(S& x) {
                if constexpr (std::is_same_v<S, For>) x.begin = visit(x.begin), x.end = visit(x.end);
                if constexpr (std::is_same_v<S, If>) x.condition = visit(x.condition);
                if constexpr (std::is_same_v<S, Let> || std::is_same_v<S, Declare> || std::is_same_v<S, Assign>)
                    x.value = visit(x.value);
                if constexpr (std::is_same_v<S, Store>) x.value = visit(x.value);
                if constexpr (std::is_same_v<S, Scatter>) x.value = visit(x.value);
            },
            s);
}

// The number that an expression is on all lanes.
std::optional<double> number(const Program& p, ExprId id) {
    const Node& n = p.node(id);
    if (n.op == Op::Broadcast) return number(p, n.args[0]);
    if (n.op != Op::Literal || !is_float(n.type.dtype)) return std::nullopt;
    double v;
    std::memcpy(&v, &n.payload, sizeof v);
    return v;
}
}  // namespace

size_t drop_load_masks(Program& p) {
    size_t changed = 0;
    rebuild(p, [&](Node n) -> std::optional<Node> {
        if (n.op != Op::Load || n.args[1] == ExprId::none) return std::nullopt;
        n.args.ids[1] = n.args.ids[2] = ExprId::none;
        ++changed;
        return n;
    });
    return changed;
}

size_t start_folds_elsewhere(Program& p) {
    size_t changed = 0;
    for (Stmt& s : p.stmts)
        if (auto* d = std::get_if<Declare>(&s))
            if (const auto v = number(p, d->value); v && (*v == 0 || std::isinf(*v))) {
                const Type t = p.type(d->value);
                d->value = broadcast(literal(p, t.dtype, *v == 0 ? 1 : 0), t.lanes).id;
                ++changed;
            }
    return changed;
}

size_t round_accumulators_to_f16(Program& p) {
    size_t changed = 0;
    for (size_t i = 0; i < p.stmts.size(); ++i)
        if (auto* a = std::get_if<Assign>(&p.stmts[i]); a && p.type(a->value).dtype == DType::F32) {
            a->value = cast(cast(Expr(&p, a->value), DType::F16), DType::F32).id;
            ++changed;
        }
    return changed;
}

}  // namespace opwright::loop
