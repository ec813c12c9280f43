// Symbolic integers compiled for repeated evaluation: one pass over a list of operations gives the value of all of them.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "math/sym.h"

namespace opwright::runtime {

class SymTable {
public:
    explicit SymTable(std::vector<std::string> symbols);
    // The slot of s in the result of evaluate(). Every symbol in s must be one of the table's.
    uint32_t add(const math::Sym& s);
    const std::vector<std::string>& symbols() const { return symbols_; }

    // Values of all slots from the values of the symbols, in their order. A slot whose value is not defined (a divisor
    // of 0, overflow) is nullopt, and so is all that depends on it.
    std::vector<std::optional<int64_t>> evaluate(std::span<const int64_t> symbols) const;

private:
    struct Op {
        math::SymKind kind;
        int64_t constant = 0;
        uint32_t begin = 0, count = 0;  // of operands_
    };
    std::vector<std::string> symbols_;
    std::vector<Op> ops_;
    std::vector<uint32_t> operands_;
    std::unordered_multimap<uint64_t, std::pair<math::Sym, uint32_t>> known_;  // by hash
};

}  // namespace opwright::runtime
