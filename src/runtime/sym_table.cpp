#include "runtime/sym_table.h"

#include <algorithm>
#include <cassert>
#include <cstdint>

namespace opwright::runtime {
using math::Sym;
using math::SymKind;

namespace {
int64_t floored(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }

std::optional<int64_t> apply(SymKind kind, int64_t a, int64_t b) {
    int64_t r = 0;
    switch (kind) {
        case SymKind::Add: return __builtin_add_overflow(a, b, &r) ? std::nullopt : std::optional(r);
        case SymKind::Mul: return __builtin_mul_overflow(a, b, &r) ? std::nullopt : std::optional(r);
        case SymKind::FloorDiv: case SymKind::Mod:
            if (b == 0 || (a == INT64_MIN && b == -1)) return std::nullopt;
            return kind == SymKind::FloorDiv ? floored(a, b) : a - floored(a, b) * b;
        case SymKind::Min: return std::min(a, b);
        case SymKind::Max: return std::max(a, b);
        case SymKind::Less: return a < b;
        case SymKind::Equal: return a == b;
        case SymKind::Const: case SymKind::Symbol: case SymKind::Select: break;
    }
    return std::nullopt;
}
}  // namespace

SymTable::SymTable(std::vector<std::string> symbols) : symbols_(std::move(symbols)) {}

uint32_t SymTable::add(const Sym& s) {
    const uint64_t h = s.hash();
    for (auto [it, end] = known_.equal_range(h); it != end; ++it)
        if (it->second.first == s) return it->second.second;
    Op op{.kind = s.kind()};
    if (s.is_const()) {
        op.constant = *s.constant();
    } else if (s.kind() == SymKind::Symbol) {
        const auto at = std::find(symbols_.begin(), symbols_.end(), s.symbol_name());
        assert(at != symbols_.end());
        op.constant = at - symbols_.begin();
    } else {
        std::vector<uint32_t> slots;
        for (const Sym& o : s.operands()) slots.push_back(add(o));
        op.begin = static_cast<uint32_t>(operands_.size());
        op.count = static_cast<uint32_t>(slots.size());
        operands_.insert(operands_.end(), slots.begin(), slots.end());
    }
    const auto slot = static_cast<uint32_t>(ops_.size());
    ops_.push_back(op);
    known_.emplace(h, std::pair(s, slot));
    return slot;
}

std::vector<std::optional<int64_t>> SymTable::evaluate(std::span<const int64_t> symbols) const {
    assert(symbols.size() == symbols_.size());
    std::vector<std::optional<int64_t>> v(ops_.size());
    for (size_t i = 0; i < ops_.size(); ++i) {
        const Op& op = ops_[i];
        const uint32_t* o = operands_.data() + op.begin;
        if (op.kind == SymKind::Const) {
            v[i] = op.constant;
        } else if (op.kind == SymKind::Symbol) {
            v[i] = symbols[static_cast<size_t>(op.constant)];
        } else if (op.kind == SymKind::Select) {
            if (v[o[0]]) v[i] = v[*v[o[0]] ? o[1] : o[2]];
        } else {
            v[i] = v[o[0]];
            for (uint32_t k = 1; k < op.count && v[i]; ++k) v[i] = v[o[k]] ? apply(op.kind, *v[i], *v[o[k]]) : std::nullopt;
        }
    }
    return v;
}

}  // namespace opwright::runtime
