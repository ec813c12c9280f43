// Expressions of L1 as C-family source, at one point of the index space.
#pragma once
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "emit/c_functions.h"
#include "emit/names.h"
#include "math/program.h"

namespace opwright::emit {

class CPoint {
public:
    // Positions are row-major elements of dense tensors. Temporaries hold values of the type they are computed in, all
    // other tensors elements of their own type.
    CPoint(const math::Program& p, CFunctions& functions, Names& names);

    // ---- what the surrounding source has
    std::unordered_map<math::TensorId, std::string> pointers;
    std::unordered_map<math::TensorId, std::string> scalars;     // temporaries that are one C variable at this point
    std::unordered_map<math::TensorId, std::vector<bool>> kept;  // temporaries that have memory only for these dims
    std::unordered_map<math::VarId, std::string>
        vars;  // index variable -> C variable or expression (of high precedence)
    std::unordered_map<std::string, std::string> symbols;    // symbol of an extent -> C variable
    std::vector<std::pair<math::Sym, std::string>> extents;  // expressions of symbols that have a C variable
    std::unordered_map<math::ExprId, std::string> held;      // values that a C variable holds already
    std::vector<std::string> lines;   // declarations that later expressions use; the caller prints them
    std::vector<std::string> faults;  // message of error code i + 1

    // The value, computed in compute_type(dtype). Values used more than once get a variable, declared in `lines`.
    std::string value(math::ExprId e);
    // As value(), in a variable of its own called like `wanted`; answers with its name.
    std::string declare(math::ExprId e, const std::string& wanted);
    // In parentheses where an operator that binds at `precedence` would take it apart.
    std::string sym(const math::Sym& s, int precedence = 13);

    struct Place {
        std::string offset;     // elements from the tensor's start
        std::string condition;  // whether it lies inside; empty: it does
    };
    // Where an access goes. Clamp and the like fold the index; data that leaves a dim with nothing said about the
    // outside is reported and goes to element 0.
    Place place(math::TensorId t, std::span<const math::ExprId> at, math::Outside outside);
    // What stands in memory for a value of a tensor's type, and back: conversions of the 16-bit floats.
    std::string to_element(const std::string& value, DType t);
    std::string from_element(const std::string& element, DType t);

    std::string literal(double v, DType t) const;
    std::string integer(int64_t v, DType t) const;

private:
    struct Text {
        std::string s;
        int precedence = 16;  // of C: 16 primary, 15 unary, 13 * / %, 12 + -, 11 shifts, 10 < <=, 9 ==, ... 3 ?:
    };
    Text text(math::ExprId e);
    Text make(math::ExprId e);
    Text call(const math::Expr& x);
    Text integer_call(const math::Expr& x, const std::vector<Text>& a);
    Text cast(const math::Expr& x);
    Text load(math::ExprId e);
    Text sym_text(const math::Sym& s);
    static std::string at_least(const Text& t, int precedence);
    static Text binary(const Text& a, const char* op, const Text& b, int precedence);
    void count_uses(math::ExprId e);
    bool is_position(math::ExprId e) const;  // made of indices and extents alone: cannot overflow
    bool known_inside(math::ExprId index, const math::Sym& extent) const;
    std::string message_of(math::TensorId t) const;

    const math::Program& p_;
    CFunctions& functions_;
    Names& names_;
    std::unordered_map<math::ExprId, int> uses_;
};

}  // namespace opwright::emit
