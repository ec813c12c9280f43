// L1 expressions as C++ of the scalar unit.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "target/ascend/names.h"

namespace opwright::target::ascend {

// What a kernel's file needs besides its class.
struct Helpers {
    std::set<std::string> used;  // names of helper functions (helpers.cpp)
    void use(const std::string& name) { used.insert(name); }
};

// Text with the strength of its outermost operator, for parentheses.
struct Text {
    std::string s;
    int level = 0;  // 0: a name, call or literal; else as C++ ranks operators, larger binds weaker
};

// Thrown where a Program has no form on the chip; `reason` is a sentence for people.
struct Unsupported {
    std::string reason;
};

// Whether an expression may stand beside `*` as it is, and the expression as it may.
bool is_factor(const std::string& s);
std::string factor(const std::string& s);
// Extents as one product.
std::string product_of(const std::vector<std::string>& factors);

class Scalar {
public:
    Scalar(const math::Program& p, const Names& n, Helpers& h) : p_(p), names_(n), helpers_(h) {}

    // ---- what the present point is; all may be changed between expressions
    std::map<math::VarId, std::string> vars;  // text of a variable: "i", "(n + lane)"
    // Asked first at every node: the text of a value that a buffer holds, or "".
    std::function<std::string(math::ExprId)> held;
    std::function<std::string(math::TensorId)> global;  // name of the GlobalTensor
    bool faults = false, checks = false;                // set where an index that is data is checked, by Checked()
    std::function<bool(const std::string&)> taken;      // names of the class that are in use
    void restart() { given_.clear(); }                  // in a new scope of names
    // A name for a value that is needed more than once.
    std::string fresh_name(const std::string& wish);
    std::string wish_for(math::ExprId e) const;

    // ---- expressions. `lines` takes constants that are needed first; they are named by Names.
    std::string value(math::ExprId e, std::vector<std::string>& lines);
    // Element offset of a place; `condition` becomes the test that it lies inside, or "" where it surely does.
    std::string offset(math::TensorId t, const math::ExprId* at, math::Outside outside, std::string& condition,
                       std::vector<std::string>& lines) {
        uses_.clear();
        named_.clear();
        for (size_t d = 0; d < p_.tensors[t].shape.size(); ++d) count(at[d]);
        return flat(t, at, outside, condition, lines);
    }
    // A place whose last index runs over lanes: the row that it lies in, and where in the row the first lane lies.
    struct Window {
        std::string row, start;
        std::string condition;  // that there is such a row; "" where there surely is
    };
    Window window(math::TensorId t, const math::ExprId* at, math::Outside outside, std::vector<std::string>& lines);
    std::string sym(const math::Sym& s);
    std::string sizes = "tiling.";  // in front of a field of the tiling
    bool host = false;              // sizes as the host computes them, with functions of its own

    // Whether an index surely lies in [0, extent).
    bool inside(math::ExprId index, const math::Sym& extent) const { return sides(index, extent).both(); }

    // "dst op src" of an accumulation of type t as an expression.
    std::string combine(math::ReduceOp op, DType t, const std::string& a, const std::string& b);
    std::string identity(math::ReduceOp op, DType t);
    std::string literal(double v, DType t);
    std::string literal(int64_t v, DType t);
    // The scalar value v of type t as what memory holds, and back.
    std::string to_memory(const std::string& v, DType t);
    std::string from_memory(const std::string& v, DType t);
    static std::string function_name(math::Fn f);  // "ScalarErf"
    Helpers& helpers() { return helpers_; }

private:
    // Whether an index surely is at least 0, and surely below an extent.
    struct Sides {
        bool low = false, high = false;
        bool both() const { return low && high; }
    };
    Sides sides(math::ExprId index, const math::Sym& extent) const;
    std::string flat(math::TensorId t, const math::ExprId* at, math::Outside outside, std::string& condition,
                     std::vector<std::string>& lines, bool row = false);
    Text text(math::ExprId e, std::vector<std::string>& lines);
    Text node(math::ExprId e, std::vector<std::string>& lines);
    Text call(const math::Expr& x, std::vector<std::string>& lines);
    std::optional<Text> linear(math::ExprId e);
    Text float_call(const math::Expr& x, std::vector<Text> a);
    Text int_call(const math::Expr& x, std::vector<Text> a, bool index);
    Text convert(const math::Expr& x, std::vector<std::string>& lines);
    void count(math::ExprId e);

    const math::Program& p_;
    const Names& names_;
    Helpers& helpers_;
    std::unordered_map<math::ExprId, int> uses_;
    std::unordered_map<math::ExprId, Text> named_;
    std::set<std::string> given_;
};

}  // namespace opwright::target::ascend
