// What the files that bind arguments share. Internal to lang.
#pragma once
#include <optional>
#include <string>

#include "lang/elaborator.h"

namespace opwright::lang {

// One dim of an argument, as declared.
struct Elaborator::Slot {
    std::string key;            // "m", "i#2", or "" where no name stands for it
    const Expr* dim = nullptr;  // the declaration's item
    bool broadcast = false, each = false;
    int physical = -1;
};
// One dim that stands under a name.
struct Elaborator::Occurrence {
    std::string where;  // "dim 1 of `x`"
    math::Sym own;
    bool broadcast = false;
};

// k*NAME or NAME*k with a number k > 1: binds NAME to the extent divided by k.
struct Multiple {
    std::string name;
    int64_t factor = 0;
};
inline std::optional<Multiple> multiple_of_name(const Expr& e) {
    if (e.kind != ExprKind::Binary || e.fn != math::Fn::Mul) return std::nullopt;
    const Expr &a = *e.args[0], &b = *e.args[1];
    if (a.kind == ExprKind::Integer && b.kind == ExprKind::Name && a.integer > 1) return Multiple{b.name, a.integer};
    if (b.kind == ExprKind::Integer && a.kind == ExprKind::Name && b.integer > 1) return Multiple{a.name, b.integer};
    return std::nullopt;
}

inline std::string dims_text(size_t n) { return fmt::format("{} dim{}", n, n == 1 ? "" : "s"); }

}  // namespace opwright::lang
