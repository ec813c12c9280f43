// Result<T>: a value or a Diagnostic. Errors that a user can cause travel as values; exceptions are for bugs.
#pragma once
#include <cassert>
#include <utility>
#include <variant>

#include "base/diagnostic.h"

namespace opwright {

template <class T>
class [[nodiscard]] Result {
public:
    Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}
    Result(Diagnostic d) : v_(std::in_place_index<1>, std::move(d)) {}
    bool ok() const { return v_.index() == 0; }
    explicit operator bool() const { return ok(); }
    T& value() & { assert(ok()); return std::get<0>(v_); }
    const T& value() const& { assert(ok()); return std::get<0>(v_); }
    T&& value() && { assert(ok()); return std::get<0>(std::move(v_)); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }
    const Diagnostic& error() const { assert(!ok()); return std::get<1>(v_); }

private:
    std::variant<T, Diagnostic> v_;
};

struct Unit {};
using Status = Result<Unit>;
inline Status ok_status() { return Unit{}; }

}  // namespace opwright

// Returns the error of a Result from the enclosing function, or binds its value: OPW_TRY(auto x, f());
#define OPW_CONCAT_(a, b) a##b
#define OPW_CONCAT(a, b) OPW_CONCAT_(a, b)
#define OPW_TRY(decl, expr) OPW_TRY_(decl, expr, OPW_CONCAT(opw_r_, __LINE__))
#define OPW_TRY_(decl, expr, tmp)        \
    auto tmp = (expr);                   \
    if (!tmp.ok()) return tmp.error();   \
    decl = std::move(tmp).value()
#define OPW_CHECK(expr)                                                         \
    do {                                                                        \
        if (auto opw_s_ = (expr); !opw_s_.ok()) return opw_s_.error();          \
    } while (0)
