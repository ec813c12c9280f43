// L1 expressions as CUDA C++ at one point: a thread with its index variables. Writes the statements that an expression
// needs (loads, shared parts) at the present place of the code and gives back the text of its value.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "math/program.h"
#include "target/cuda/functions.h"
#include "target/cuda/text.h"

namespace opwright::target::cuda {

// What the kernels of one file share.
struct Context {
    explicit Context(const math::Program& program) : p(program) {}

    const math::Program& p;
    Code code;
    Helpers helpers;
    Names names;
    std::vector<std::string> pointers;  // by tensor: name of the parameter
    std::vector<DType> stored;          // by tensor: type in memory (temporaries hold the compute type)
    std::vector<std::string> faults;    // message of code i + 1
    // Of the kernel being written:
    std::vector<bool> touched, written;                          // by tensor
    std::vector<std::pair<math::Sym, std::string>> sizes;        // that the kernel takes as parameters, and their names
    std::vector<std::pair<math::Sym, std::string>> known_sizes;  // of the whole file
    std::vector<std::string> permanent;  // names that outlive the scope in which they were first used
    bool uses_fault = false;
    bool cooperates = false;  // threads meet in barriers or shuffles
    bool awaits = false;      // it begins by waiting for the kernel ahead of it

    int fault(const std::string& message);
    // The text of an extent; symbols, and what is more than sums and products of them, become parameters.
    Operand size(const math::Sym& s);
    void name_size(const math::Sym& s, const std::string& name);  // makes it a parameter of that name
};

// One index of an access as text, and the condition under which it is inside ("" where that is certain).
struct Place {
    std::string offset;  // elements from the start of the tensor, of type Index
    std::string condition;
};

// What a variable is called that a reduction adds up in.
const char* accumulator_name(math::ReduceOp op);

class Point {
public:
    explicit Point(Context& c) : c_(c) {}

    void bind(math::VarId v, std::string text) { vars_[v] = std::move(text); }
    const std::string& variable(math::VarId v) const { return vars_.at(v); }
    bool bound(math::VarId v) const { return vars_.count(v) > 0; }
    // Values known already: of an expression, and of a temporary that lives in a register at this point.
    void set(math::ExprId e, Operand v) { values_[e] = std::move(v); }
    bool known(math::ExprId e) const { return values_.count(e) > 0; }
    void hold(math::TensorId t, Operand v) { held_[t] = std::move(v); }

    struct Scope {
        std::unordered_map<math::VarId, std::string> vars;
        std::unordered_map<math::ExprId, Operand> values;
        std::map<math::TensorId, Operand> held;
        std::unordered_map<math::ExprId, std::string> divisors;
        std::map<std::string, std::string> inward;
        std::set<std::string> names;
    };
    Scope save() const { return {vars_, values_, held_, divisors_, inward_, c_.names.save()}; }
    void restore(Scope s);

    // Prepares for evaluating `root`: parts with several uses get a name.
    void count_uses(math::ExprId root);
    Operand eval(math::ExprId e, const char* name = "t");
    Operand named(math::ExprId e, const std::string& name);  // eval, as a constant of a name
    // Names the values of the largest parts of `root` that depend neither on `lane` nor on a variable that is not bound
    // yet: loops opened after this do not repeat them.
    void hoist(math::ExprId root, math::VarId lane = math::kNone);
    // The same for the reciprocals of what `root` divides floats by, where that does not depend on `lane`.
    void hoist_divisors(math::ExprId root, math::VarId lane);
    void short_results() { short_results_ = true; }  // all have 16 bits: quotients may be off in the last bits of f32
    void approximate(math::ExprId e) { approximate_.insert(e); }  // this exponential by short_exp
    void keep_out(math::TensorId t) { kept_out_.insert(t); }  // written at this point: its loads stay where they are
    // `for` loops over variables that are not bound; body, which evaluates `roots`, runs inside all of them.
    void loops(const std::vector<math::VarId>& vars, const std::vector<math::ExprId>& roots,
               const std::function<void()>& body);

    // Reductions, one thread doing all of it. Declares the accumulator(s), loops, and sets the value of `e`.
    struct Accumulator {
        std::string value, best;  // best: position of an arg reduction
        DType type = DType::F32;
        bool ordered = false;  // terms come by ascending position
    };
    Accumulator declare(math::ExprId reduce);
    // Takes in the body's value at the present point.
    void accumulate(math::ExprId reduce, const Accumulator& a);
    // Of an arg reduction: a function that tells whether a candidate is better than the best so far.
    std::string better(math::ExprId reduce);
    Operand result(math::ExprId reduce, const Accumulator& a);
    void reduce_serially(math::ExprId reduce);

    Place place(math::TensorId t, const math::ExprId* at, math::Outside outside, const std::string& what);
    std::string inward(math::Outside outside, const std::string& i, const Operand& extent);
    // Writes the equation's value to its place. `atomic`: other threads may update the same place.
    void store(const math::Equation& q, const Operand& value, bool atomic);

    Context& context() { return c_; }

private:
    Operand load(math::ExprId e);
    Operand inside(math::ExprId e);
    bool hoistable(math::ExprId e, math::VarId lane) const;
    bool is_position(math::ExprId e) const;  // made of indices and extents alone: it can't overflow
    std::string index(math::ExprId e);       // an affine index of type Index, or ""
    std::string position(math::ExprId reduce);

    Context& c_;
    std::unordered_map<math::VarId, std::string> vars_;
    std::unordered_map<math::ExprId, Operand> values_;
    std::unordered_map<math::ExprId, int> uses_;
    std::map<math::TensorId, Operand> held_;
    std::unordered_map<math::ExprId, std::string> divisors_;  // by the number divided by
    std::map<std::string, std::string> inward_;               // names of positions folded back inside, by their texts
    std::set<math::TensorId> kept_out_;
    std::set<math::ExprId> approximate_;
    bool short_results_ = false;
};

// Reduce nodes of e that are not inside another, in order.
std::vector<math::ExprId> reduces_in(const math::Program& p, math::ExprId e);
// Loads of e and of all inside it, children first; `into_reduces`: those in bodies of reductions too.
std::vector<math::ExprId> loads_in(const math::Program& p, math::ExprId e, bool into_reduces);

}  // namespace opwright::target::cuda
