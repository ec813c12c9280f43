// Symbolic integers: extents of tensors and integer attributes, known only when a kernel is launched.
//
// A Sym is an immutable expression over named symbols, kept in a simplified canonical form (sums of products, sorted),
// so that equal expressions built in different ways compare equal in the cases that shape arithmetic meets. Division and
// remainder round toward minus infinity. Symbols have a stated lower bound (0 for an extent), which simplification uses.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace opwright::math {

enum class SymKind : uint8_t { Const, Symbol, Add, Mul, FloorDiv, Mod, Min, Max, Less, Equal, Select };

class Sym {
public:
    struct Node;
    Sym() : Sym(int64_t{0}) {}
    Sym(int64_t v);  // NOLINT: integers are symbolic integers
    Sym(int v) : Sym(static_cast<int64_t>(v)) {}
    // A named unknown. Two symbols of one name are the same symbol; the bound given for a name should be kept to.
    static Sym symbol(const std::string& name, int64_t lower_bound = 0);

    SymKind kind() const;
    bool is_const() const { return kind() == SymKind::Const; }
    std::optional<int64_t> constant() const;
    bool is(int64_t v) const { return constant() == v; }
    const std::string& symbol_name() const;            // of a Symbol
    const std::vector<Sym>& operands() const;
    const Node* id() const { return node_.get(); }

    // Bounds that hold for every value of the symbols; INT64_MIN / INT64_MAX where nothing is known.
    int64_t lower() const;
    int64_t upper() const;
    bool known_equal(const Sym& o) const;              // provably equal (structurally, after simplification)
    bool known_different(const Sym& o) const;          // provably different, by bounds of the difference
    bool multiple_of(int64_t d) const;                 // provably a multiple of d > 0

    friend bool operator==(const Sym& a, const Sym& b) { return a.known_equal(b); }
    uint64_t hash() const;
    uint64_t size() const;                             // nodes of the expression seen as a tree
    std::string str() const;                           // "(h + 2*pad - kh)//stride + 1"

private:
    explicit Sym(std::shared_ptr<const Node> n) : node_(std::move(n)) {}
    std::shared_ptr<const Node> node_;
    friend struct SymAccess;
};

Sym operator+(const Sym& a, const Sym& b);
Sym operator-(const Sym& a, const Sym& b);
Sym operator*(const Sym& a, const Sym& b);
Sym operator-(const Sym& a);
Sym floor_div(const Sym& a, const Sym& b);
Sym ceil_div(const Sym& a, const Sym& b);
Sym mod(const Sym& a, const Sym& b);
Sym min(const Sym& a, const Sym& b);
Sym max(const Sym& a, const Sym& b);
Sym less(const Sym& a, const Sym& b);                  // 1 or 0
Sym equal(const Sym& a, const Sym& b);                 // 1 or 0
Sym select(const Sym& c, const Sym& a, const Sym& b);  // c != 0 ? a : b
Sym product(const std::vector<Sym>& v);

// Values of symbols by name.
using SymValues = std::map<std::string, int64_t>;
// The value; nullopt where a symbol is missing, a divisor is 0, or int64 overflows.
std::optional<int64_t> evaluate(const Sym& s, const SymValues& values);
// Replaces symbols by expressions; symbols not in the map stay.
Sym substitute(const Sym& s, const std::map<std::string, Sym>& by);
// Names of the symbols in s, appended to `out` in order of first occurrence, each once.
void collect_symbols(const Sym& s, std::vector<std::string>& out);

}  // namespace opwright::math
