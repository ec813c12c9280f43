// What an expression of the language is worth while an operator is elaborated.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "math/program.h"

namespace opwright::lang {

struct Value {
    enum class Kind : uint8_t {
        None,       // `none`, an attribute that was left out
        Literal,    // a number without a type: takes that of what it meets
        Size,       // an extent or an integer attribute, i64, known at launch at the latest
        Condition,  // 0 or 1 in `sym`
        Text,
        Type,
        List,
        Computed,  // an expression of the Program
    };
    Kind kind = Kind::None;
    bool real = false;                // Literal: written or computed as a floating-point number
    bool index = false;               // Computed: made of indices, extents and integer literals only
    DType type = DType::I64;          // Type; Computed: the type it counts as (16-bit floats are computed in f32)
    math::ExprId expr = math::kNone;  // Computed
    int64_t integer = 0;              // Literal
    double number = 0;                // Literal
    math::Sym sym = zero();           // Size, Condition
    std::string text;
    std::shared_ptr<const std::vector<Value>> list;

    static Value none() { return {}; }
    static Value of_integer(int64_t v);
    static Value of_real(double v);
    static Value of_size(math::Sym s);
    static Value of_condition(math::Sym s);
    static Value of_text(std::string s);
    static Value of_type(DType t);
    static Value of_list(std::vector<Value> v);
    static Value of_expr(math::ExprId e, DType t, bool index = false);

    bool is(Kind k) const { return kind == k; }
    bool is_static() const { return kind != Kind::Computed; }
    // The integer of a Literal or of a constant Size.
    std::optional<int64_t> constant_integer() const;
    // An integer Literal or a Size as a Sym.
    std::optional<math::Sym> as_sym() const;
    // "an integer", "a list", "f32", ... for messages.
    std::string kind_name() const;
    // For messages: the value as text.
    std::string str() const;

private:
    static const math::Sym& zero();
};

}  // namespace opwright::lang
