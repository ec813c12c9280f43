#include <fmt/format.h>

#include "verify/check.h"

namespace opwright::verify {
using math::Sym;
namespace {
std::string text(const lang::Attribute& a) {
    const auto list = [](const auto& v, auto each) {
        std::string r;
        for (const auto& x : v) r += (r.empty() ? "" : ", ") + each(x);
        return "[" + r + "]";
    };
    const auto quoted = [](const std::string& s) { return '"' + s + '"'; };
    struct Visitor {
        decltype(list)& list_;
        decltype(quoted)& quoted_;
        std::string operator()(const Sym& s) const { return s.str(); }
        std::string operator()(double v) const { return fmt::format("{}", v); }
        std::string operator()(bool v) const { return v ? "true" : "false"; }
        std::string operator()(const std::string& s) const { return quoted_(s); }
        std::string operator()(DType t) const { return std::string(opwright::name(t)); }
        std::string operator()(const std::vector<Sym>& v) const {
            return list_(v, [](const Sym& s) { return s.str(); });
        }
        std::string operator()(const std::vector<double>& v) const {
            return list_(v, [](double d) { return fmt::format("{}", d); });
        }
        std::string operator()(const std::vector<std::string>& v) const { return list_(v, quoted_); }
    };
    return std::visit(Visitor{list, quoted}, a);
}
}  // namespace

std::string attributes_text(const lang::Attributes& attributes) {
    std::string r;
    for (const auto& [n, a] : attributes) r += fmt::format("{}{} = {}", r.empty() ? "" : ", ", n, text(a));
    return r;
}

}  // namespace opwright::verify
