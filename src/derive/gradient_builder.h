// The state of one reverse pass. Private to gradient*.cpp.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "derive/solve.h"
#include "math/algebra.h"
#include "math/program.h"

namespace opwright::derive {

// A cotangent: `value` where `where` holds, else 0. Masks stay apart from values until the end, so that a derivative
// that is infinite where its branch is not taken does no harm. A divisor that is the same for many elements (the sum in
// a softmax) stays apart too, as `over`: sums are divided once, and a quotient that the operator itself computes is met
// again (divided()).
struct Cotangent {
    math::ExprId value = math::kNone, where = math::kNone, over = math::kNone;
};

// The loops that an expression stands in: `vars`, of which the first `outer` are those of the left side, under a
// condition.
struct Scope {
    std::vector<math::VarId> vars;
    size_t outer = 0;
    math::ExprId condition = math::kNone;
};

// What one access contributes to the cotangent of its tensor.
struct Contribution {
    math::TensorId tensor = math::kNone;
    std::vector<math::ExprId> at;
    math::Outside outside = math::Outside::Error;
    Scope scope;
    Cotangent cotangent;  // of the compute type
};

class GradientBuilder {
public:
    GradientBuilder(math::Program p, const std::vector<math::TensorId>& wrt);
    // Appends the equations of the adjoint. `asked`: outputs with a cotangent (empty: all). `cotangents` and
    // `gradients`: tensors, in the order of p's outputs (kNone for those that do not matter) and of wrt.
    void run(const std::vector<size_t>& asked, std::vector<math::TensorId>& cotangents,
             std::vector<math::TensorId>& gradients);
    math::Program& program() { return p_; }

private:
    struct Scatter {
        std::vector<math::ExprId> at;
        math::ExprId value;
        math::Outside outside;
    };
    struct Term {
        math::ExprId value, over = math::kNone;
    };
    struct Pending {
        std::vector<Term> terms;  // over index variables of the tensor, of the compute type
        std::vector<Scatter> scatters;
        bool any() const { return !terms.empty() || !scatters.empty(); }
    };

    // gradient.cpp
    void find_active();
    bool active(math::ExprId e);
    void equation(size_t i);
    DType cotangent_type(math::TensorId t) const { return compute_type(p_.tensors[t].dtype); }

    // gradient_expression.cpp: from the cotangent of an expression to those of the tensors that it reads.
    void propagate(math::ExprId root, Cotangent c, const Scope& s);
    void propagate_call(math::ExprId e, const Cotangent& c, const Scope& s,
                        std::map<math::ExprId, Cotangent, std::greater<>>& todo);
    bool propagate_stable(math::ExprId e, const Cotangent& c, std::map<math::ExprId, Cotangent, std::greater<>>& todo);
    void add(std::map<math::ExprId, Cotangent, std::greater<>>& todo, math::ExprId e, Cotangent c);
    math::ExprId masked(const Cotangent& c);

    // gradient_divisor.cpp
    // Whether dividing by e may be put off: e is the same for many of the elements that the scope goes over.
    bool shared_divisor(math::ExprId e, const Scope& s) const;
    // value / over; over may be kNone. A factor whose quotient is a value of the operator is replaced by that value.
    math::ExprId divided(math::ExprId value, math::ExprId over);
    Cotangent divided(Cotangent c) { return {divided(c.value, c.over), c.where}; }
    // The expression with what the operator's equations compute read from their results.
    math::ExprId with_results(math::ExprId e);
    // Whether the cotangent of t goes only where a divisor can follow it.
    bool carries_divisor(math::TensorId t) const;

    // gradient_access.cpp
    void contribute(Contribution c);
    std::optional<Term> gathered(Contribution c, const std::vector<math::ExprId>& target, Solution s, bool spare);
    std::optional<math::ExprId> by_phases(const Contribution& c, const Solution& s);
    std::optional<math::ExprId> phases_apart(
        const Contribution& c, const Solution& first, const std::string& name, const std::vector<math::ExprId>& phased,
        const std::vector<math::ExprId>& step, const std::vector<math::Sym>& steps,
        const std::vector<math::ExprId>& step_read, const std::vector<math::ExprId>& phase_read,
        const std::vector<math::Sym>& phases);
    bool extended(const Contribution& c);
    void scatter(const Contribution& c);
    const std::vector<math::ExprId>& index(math::TensorId t);
    // The cotangent of t as a tensor, once all contributions are known; kNone if there are none. `role`: Output for a
    // result.
    math::TensorId settle(math::TensorId t, const std::string& name, math::Role role);
    math::TensorId temporary(const std::string& name, DType t, std::vector<math::Sym> shape);
    // A temporary over `vars`, and a read of it there.
    math::ExprId through_temporary(const std::string& name, const std::vector<math::VarId>& vars, math::ExprId value);

    // gradient_reduce.cpp
    void reduction(const math::Equation& q, math::TensorId cotangent, math::ExprId over);
    void scan(const math::Equation& q, math::TensorId cotangent);

    // gradient_update.cpp: passes the cotangent of an updated tensor to what was written, and returns that of the
    // tensor before the update, kNone where nobody asks for it.
    math::TensorId update(size_t i, math::TensorId cotangent);
    math::TensorId overwritten(size_t i, math::TensorId cotangent);
    math::TensorId multiplied(size_t i, math::TensorId cotangent);
    math::TensorId extreme_of(size_t i, math::TensorId cotangent);
    bool overlaps_earlier(size_t i) const;
    // The values of the tensor that equation i writes, before equation `end`.
    math::TensorId value_before(size_t i, size_t end);

    math::Program p_;
    math::Algebra x_{p_};
    size_t primal_ = 0;  // equations of the operator itself
    std::vector<math::TensorId> wrt_;
    std::vector<bool> active_;    // tensors that depend on wrt through floats
    std::vector<bool> constant_;  // tensors whose gradient cancels (the maximum of a softmax)
    std::unordered_map<math::ExprId, bool> active_expr_;
    std::map<math::TensorId, math::TensorId> current_;  // cotangents of tensors whose last write has been met
    std::map<math::TensorId, math::ExprId> over_;       // what they are still to be divided by, over index(t)
    std::vector<Pending> pending_;
    std::map<math::TensorId, std::vector<math::ExprId>> index_;
};

}  // namespace opwright::derive
