// Writing CUDA C++ source: indented lines, names, operands with just the parentheses that they need.
#pragma once
#include <fmt/format.h>

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "math/sym.h"

namespace opwright::target::cuda {

class Code {
public:
    template <class... A>
    void line(fmt::format_string<A...> f, A&&... a) {
        raw(fmt::format(f, std::forward<A>(a)...));
    }
    template <class... A>
    void open(fmt::format_string<A...> f, A&&... a) {  // "for (...)": adds the brace
        raw(fmt::format(f, std::forward<A>(a)...) + " {");
        ++depth_;
    }
    void close(std::string_view after = "") {
        --depth_;
        raw("}" + std::string(after));
    }
    void close_if();                      // the same, without braces around a single statement that fits the line
    void raw(std::string_view text);      // one line, as it is
    void comment(std::string_view text);  // wrapped to the width of a page
    std::string take() { return std::move(out_); }
    const std::string& text() const { return out_; }
    int depth() const { return depth_; }
    void set_depth(int d) { depth_ = d; }

private:
    std::string out_;
    int depth_ = 0;
};

// Whether the text is an identifier, or a number without a point.
bool is_name(std::string_view text);
// Whether the identifier stands in the text.
bool mentions_word(std::string_view text, std::string_view word);

// A C expression and how tightly it binds.
struct Operand {
    enum Level : uint8_t { Lowest, Or, And, Bit, Equality, Relation, Shift, Sum, Product, Unary, Atom };
    std::string text;
    Level level = Atom;
    // The text, in parentheses where it binds less tightly than `least`.
    std::string at(Level least) const { return level >= least ? text : "(" + text + ")"; }
    const std::string& str() const { return text; }
};

// Names that are free in C++ and CUDA, each given once.
class Names {
public:
    Names();
    // `wanted` where it is a free identifier, else with a number behind it.
    std::string fresh(std::string_view wanted);
    std::set<std::string> save() const { return used_; }
    void restore(std::set<std::string> used) { used_ = std::move(used); }
    void keep(const std::vector<std::string>& names) { used_.insert(names.begin(), names.end()); }

private:
    std::set<std::string> used_;
};

std::string_view c_type(DType t);        // of a value in a register: f16 and bf16 are float
std::string_view memory_type(DType t);   // in memory: the structs f16 and bf16
std::string literal(double v, DType t);  // float types
std::string literal_int(int64_t v, DType t);

// A symbolic integer as C text: constants, sums and products; name_of() gives the name of anything else.
Operand print(const math::Sym& s, const std::function<std::string(const math::Sym&)>& name_of);

}  // namespace opwright::target::cuda
