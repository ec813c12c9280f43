#include "math/widen.h"

namespace opwright::math {
namespace {

class Widener {
public:
    explicit Widener(const Program& from) : from_(from), memo_(from.expr_count(), kNone) {}

    std::optional<Program> run() {
        to_.name = from_.name;
        to_.doc = from_.doc;
        to_.requirements = from_.requirements;
        for (const TensorInfo& t : from_.tensors) {
            if (t.role == Role::Constant)
                to_.add_constant(t.name, data(t.data));
            else
                to_.add_tensor(t.name, wide(t.dtype), t.shape, t.role);
        }
        to_.inputs = from_.inputs;  // their order may differ from that of the tensors
        to_.outputs = from_.outputs;
        for (const Var& v : from_.vars) to_.add_var(v.name, v.extent);
        for (const Equation& q : from_.equations) {
            std::vector<ExprId> at;
            for (ExprId a : q.at) at.push_back((*this)(a));
            const ExprId value = (*this)(q.rhs);
            if (!possible_) return std::nullopt;
            to_.add_equation(q.lhs, std::move(at), value, q.update, q.outside, q.span);
            to_.equations.back().vars = q.vars;
        }
        return std::move(to_);
    }

private:
    static DType wide(DType t) { return is_float(t) ? DType::F64 : t; }
    static Tensor data(const Tensor& t) {
        if (!is_float(t.dtype())) return t;
        Tensor r(DType::F64, t.shape());
        for (int64_t i = 0; i < t.size(); ++i) r.set(i, t.get(i));
        return r;
    }

    ExprId operator()(ExprId e) {
        if (memo_[e] == kNone) {
            const ExprId made = make(from_.expr(e));
            memo_[e] = made;
        }
        return memo_[e];
    }
    ExprId make(const Expr& x) {
        std::vector<ExprId> args;
        for (ExprId a : x.args) args.push_back((*this)(a));
        switch (x.kind) {
            case ExprKind::Literal:
                return is_float(x.dtype) ? to_.literal(x.number, DType::F64) : to_.integer(x.integer, x.dtype);
            case ExprKind::Index: return to_.index(x.ref);
            case ExprKind::Size: return to_.size(x.sym);
            case ExprKind::Load: {
                const size_t rank = from_.tensors[x.ref].shape.size();
                const ExprId fill = args.size() > rank ? args[rank] : kNone;
                args.resize(rank);
                return to_.load(x.ref, std::move(args), x.outside, fill);
            }
            case ExprKind::Inside: return to_.inside(x.ref, std::move(args));
            case ExprKind::Call: return to_.call(x.fn, std::move(args));
            case ExprKind::Cast: {
                const bool between_floats = is_float(x.dtype) && is_float(from_.expr(x.args[0]).dtype);
                return between_floats ? args[0] : to_.cast(args[0], wide(x.dtype));
            }
            case ExprKind::Wrap: return to_.wrap(args[0], x.dtype);
            case ExprKind::Bitcast:
                if (is_float(x.dtype) || is_float(from_.expr(x.args[0]).dtype)) {
                    possible_ = false;
                    return to_.literal(0, wide(x.dtype));
                }
                return to_.bitcast(args[0], x.dtype);
            case ExprKind::Reduce:
                return to_.reduce(x.reduce, x.vars, args[0], wide(x.dtype), args.size() > 1 ? args[1] : kNone);
            case ExprKind::Scan: return to_.scan(x.reduce, x.vars[0], args[0], x.exclusive, x.backward);
        }
        return kNone;
    }

    const Program& from_;
    Program to_;
    std::vector<ExprId> memo_;
    bool possible_ = true;
};
}  // namespace

std::optional<Program> widened(const Program& p) { return Widener(p).run(); }

}  // namespace opwright::math
