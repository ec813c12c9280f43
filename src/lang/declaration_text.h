// Expressions as text of the language. Private to declaration*.cpp.
#pragma once
#include <functional>
#include <string>

#include "lang/declaration_names.h"
#include "math/program.h"

namespace opwright::lang {

// A symbolic integer; `rename` gives the text of a symbol, its name where empty.
std::string sym_text(const math::Sym& s, const std::function<std::string(const std::string&)>& rename, int outer = 0);
// A symbolic integer as a condition: that it is not 0.
std::string condition_text(const math::Sym& s);
// A number such that it reads back as the same value of type t.
std::string number_text(double v, DType t);

class ExpressionText {
public:
    ExpressionText(const math::Program& p, const DeclarationNames& names) : p_(p), names_(names) {}
    std::string operator()(math::ExprId e) { return text(e, 0); }
    bool too_long() const { return used_ > kLimit; }

private:
    static constexpr size_t kLimit = 100000;  // nodes
    std::string text(math::ExprId e, int outer);
    std::string raw(const math::Expr& e, int& level);
    std::string typed(math::ExprId e);  // with its type, where the number alone would not tell it
    std::string call(const math::Expr& e, int& level);
    std::string access(const math::Expr& e);

    const math::Program& p_;
    const DeclarationNames& names_;
    size_t used_ = 0;
};

}  // namespace opwright::lang
