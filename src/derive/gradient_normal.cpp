#include "derive/gradient_normal.h"

#include <algorithm>

#include "math/extract.h"

namespace opwright::derive {
using namespace math;
namespace {

bool mentions(const Program& p, ExprId e, TensorId t) {
    const auto r = p.reads(e);
    return std::find(r.begin(), r.end(), t) != r.end();
}

ExprId with_tensor(Program& p, ExprId e, TensorId from, TensorId to) {
    Rewriter r = in_place(p);
    r.tensors[from] = to;
    return r(e);
}

// Reads between two writes of a tensor see a copy that is taken after the first.
void copy_between_updates(Program& p) {
    for (size_t later = 0; later < p.equations.size(); ++later) {
        const TensorId t = p.equations[later].lhs;
        if (p.equations[later].update == Update::Set) continue;
        size_t write = later;
        while (write > 0 && p.equations[write - 1].lhs != t) --write;
        if (write == 0) continue;  // the first write of t
        bool read = false;
        for (size_t i = write; i < later; ++i) {
            const Equation& q = p.equations[i];
            read = read || mentions(p, q.rhs, t) ||
                   std::any_of(q.at.begin(), q.at.end(), [&](ExprId a) { return mentions(p, a, t); });
        }
        if (!read) continue;
        const TensorInfo info = p.tensors[t];
        const TensorId copy = p.add_tensor(fresh_name(p, info.name + "_before"), info.dtype, info.shape, Role::Temp);
        for (size_t i = write; i < later; ++i) {
            p.equations[i].rhs = with_tensor(p, p.equations[i].rhs, t, copy);
            for (ExprId& a : p.equations[i].at) a = with_tensor(p, a, t, copy);
        }
        std::vector<ExprId> at;
        for (size_t d = 0; d < info.shape.size(); ++d)
            at.push_back(p.index(p.add_var("i" + std::to_string(d), info.shape[d])));
        p.add_equation(copy, at, p.load(t, at));
        Equation made = std::move(p.equations.back());
        p.equations.pop_back();
        p.equations.insert(p.equations.begin() + static_cast<std::ptrdiff_t>(write), std::move(made));
        ++later;
    }
}

class Hoister {
public:
    explicit Hoister(Program& p) : p_(p) {}

    void run() {
        std::vector<Equation> old = std::move(p_.equations);
        p_.equations.clear();
        for (Equation& q : old) {
            name_ = p_.tensors[q.lhs].name;
            for (ExprId& a : q.at) a = inner(a);
            const Expr e = p_.expr(q.rhs);
            if (e.kind == ExprKind::Reduce) {
                const ExprId body = inner(e.args[0]), condition = e.args.size() > 1 ? inner(e.args[1]) : kNone;
                q.rhs = p_.reduce(e.reduce, e.vars, body, e.dtype, condition);
            } else if (e.kind == ExprKind::Scan) {
                q.rhs = p_.scan(e.reduce, e.vars[0], inner(e.args[0]), e.exclusive, e.backward);
            } else {
                q.rhs = inner(q.rhs);
            }
            p_.equations.push_back(std::move(q));
        }
    }

private:
    ExprId inner(ExprId id) {
        Rewriter r = in_place(p_);
        r.replace = [this](Rewriter& self, ExprId x) -> ExprId {
            const Expr e = p_.expr(x);
            if (e.kind != ExprKind::Reduce) return kNone;
            const ExprId body = self(e.args[0]), condition = e.args.size() > 1 ? self(e.args[1]) : kNone;
            return hoist(p_.reduce(e.reduce, e.vars, body, e.dtype, condition));
        };
        return r(id);
    }
    ExprId hoist(ExprId reduction) {
        if (const auto it = done_.find(reduction); it != done_.end()) return it->second;
        Rewriter twin = in_place(p_);
        std::vector<ExprId> written, read;
        std::vector<Sym> shape;
        for (VarId v : p_.free_vars(reduction)) {  // a variable bound by a reduction around gets a twin that is free
            const VarId w = p_.add_var(p_.vars[v].name, p_.vars[v].extent);
            twin.bound.erase(v);
            twin.vars[v] = p_.index(w);
            written.push_back(p_.index(w));
            read.push_back(p_.index(v));
            shape.push_back(p_.vars[v].extent);
        }
        const Expr& e = p_.expr(reduction);
        const std::string base = name_ + "_" + std::string(name(e.reduce));
        const TensorId t = p_.add_tensor(fresh_name(p_, base), e.dtype, std::move(shape), Role::Temp);
        const ExprId value = twin(reduction);
        p_.add_equation(t, std::move(written), value);
        return done_[reduction] = p_.load(t, std::move(read));
    }

    Program& p_;
    std::string name_;  // of the tensor that is being defined
    std::unordered_map<ExprId, ExprId> done_;
};
}  // namespace

std::string fresh_name(const Program& p, const std::string& base) {
    const auto taken = [&](const std::string& n) {
        return std::any_of(p.tensors.begin(), p.tensors.end(), [&](const TensorInfo& t) { return t.name == n; });
    };
    if (!taken(base)) return base;
    for (int i = 1;; ++i)
        if (std::string n = base + "_" + std::to_string(i); !taken(n)) return n;
}

void normalise(Program& p) {
    copy_between_updates(p);
    Hoister(p).run();
}

}  // namespace opwright::derive
