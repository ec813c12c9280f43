#include "target/cuda/packs.h"

#include <algorithm>

#include "target/cuda/lower.h"

namespace opwright::target::cuda {
using namespace math;

void Packs::note(TensorId t) {
    if (std::find(tensors_.begin(), tensors_.end(), t) == tensors_.end()) tensors_.push_back(t);
}

void Packs::add(ExprId e, VarId lane, bool into_reduces) {
    for (ExprId l : loads_in(p_, e, into_reduces)) {
        const Expr& x = p_.expr(l);
        const TensorInfo& t = p_.tensors[x.ref];
        if (t.role == Role::Constant || std::find(out_.begin(), out_.end(), x.ref) != out_.end()) continue;
        if (!contiguous(p_, x.ref, x.args, lane)) continue;
        // The last dim is covered by the variable; what the others do must not depend on it, nor bring a value of its
        // own.
        if (x.outside == Outside::Value) {
            const Expr& fill = p_.expr(x.args.back());
            if (fill.kind != ExprKind::Literal || fill.integer != 0 || fill.number != 0) continue;
        }
        if (!(t.shape.back() == p_.vars[lane].extent) && x.outside != Outside::Error) continue;
        if (std::any_of(loads_.begin(), loads_.end(), [&](auto& o) { return o.first == l; })) continue;
        loads_.emplace_back(l, lane);
        note(x.ref);
    }
}

bool Packs::can(ExprId load, VarId lane) const {
    return std::any_of(loads_.begin(), loads_.end(), [&](auto& o) { return o.first == load && o.second == lane; });
}

int64_t Packs::width() const {
    size_t widest = 0;
    for (TensorId t : tensors_) widest = std::max(widest, size_of(stored_[t]));
    return widest == 0 ? 1 : std::min(most_, static_cast<int64_t>(16 / widest));
}

std::vector<Condition> Packs::conditions(VarId lane) const {
    std::vector<Condition> r;
    const int64_t n = width();
    const auto multiple = [&](const Sym& s) {
        if (s.multiple_of(n)) return;
        for (const Condition& c : r)
            if (c.kind == Condition::Kind::Multiple && c.value == s) return;
        r.push_back({.kind = Condition::Kind::Multiple, .value = s, .number = n});
    };
    multiple(p_.vars[lane].extent);
    for (TensorId t : tensors_) multiple(p_.tensors[t].shape.back());
    for (TensorId t : tensors_)
        if (p_.tensors[t].role != Role::Temp)
            r.push_back({.kind = Condition::Kind::Aligned,
                         .number = n * static_cast<int64_t>(size_of(stored_[t])),
                         .tensor = t});
    return r;
}

void Packs::uniform_loads(Point& at, ExprId e, VarId lane) const {
    for (ExprId l : loads_in(p_, e, false))
        if (!mentions(p_, l, lane) && std::find(out_.begin(), out_.end(), p_.expr(l).ref) == out_.end()) {
            const auto free = p_.free_vars(l);
            if (std::all_of(free.begin(), free.end(), [&](VarId v) { return at.bound(v); })) at.eval(l);
        }
}

void Packs::load(Point& at, ExprId e, std::vector<std::pair<ExprId, std::string>>& loaded) const {
    Context& c = at.context();
    for (ExprId l : loads_in(p_, e, false)) {
        if (std::none_of(loads_.begin(), loads_.end(), [&](auto& o) { return o.first == l; })) continue;
        if (std::any_of(loaded.begin(), loaded.end(), [&](auto& o) { return o.first == l; })) continue;
        const Expr& x = p_.expr(l);
        const TensorInfo& t = p_.tensors[x.ref];
        c.touched[x.ref] = true;
        c.helpers.use("Pack");
        const Place place =
            at.place(x.ref, x.args.data(), x.outside,
                     fmt::format("{}: an index of {}[{}] lies outside the tensor", p_.name, t.name, p_.print(l)));
        const std::string name = c.names.fresh(t.name + "_pack");
        const std::string value = fmt::format("load_pack<VECTOR>(&{}[{}])", c.pointers[x.ref], place.offset);
        if (place.condition.empty()) {
            c.code.line("const auto {} = {};", name, value);
        } else {
            c.code.line("Pack<{}, VECTOR> {}{{}};", memory_type(stored_[x.ref]), name);
            c.code.line("if ({}) {} = {};", place.condition, name, value);
        }
        loaded.emplace_back(l, name);
    }
}

void Packs::take(Point& at, const std::vector<std::pair<ExprId, std::string>>& loaded, const std::string& v) const {
    Context& c = at.context();
    for (auto& [l, pack] : loaded) {
        const TensorId t = p_.expr(l).ref;
        const std::string name = c.names.fresh(p_.tensors[t].name + "_value");
        c.code.line("const {} {} = {};", c_type(stored_[t]), name,
                    from_memory({fmt::format("{}.at[{}]", pack, v)}, stored_[t], c.helpers).text);
        at.set(l, {name});
    }
}

std::string Packs::declare(Point& at, TensorId t) const {
    Context& c = at.context();
    c.helpers.use("Pack");
    to_memory({"0"}, stored_[t], c.helpers);
    const std::string name = c.names.fresh(p_.tensors[t].name + "_pack");
    c.code.line("Pack<{}, VECTOR> {};", memory_type(stored_[t]), name);
    return name;
}

void Packs::store(Point& at, const Equation& q, const std::string& pack, bool once) const {
    Context& c = at.context();
    c.touched[q.lhs] = c.written[q.lhs] = true;
    const Place place = at.place(q.lhs, q.at.data(), q.outside, "");
    c.code.line("{}(&{}[{}], {});", once ? c.helpers.use("store_once") : "store_pack", c.pointers[q.lhs], place.offset,
                pack);
}

}  // namespace opwright::target::cuda
