#include "loop/program.h"

#include <fmt/format.h>

#include <bit>

namespace opwright::loop {

std::string to_string(Type t) {
    return t.lanes == 1 ? std::string(name(t.dtype)) : fmt::format("{}x{}", name(t.dtype), t.lanes);
}

size_t Program::NodeHash::operator()(const Node& n) const {
    uint64_t h = static_cast<uint64_t>(n.op) | static_cast<uint64_t>(n.fn) << 8 |
                 static_cast<uint64_t>(n.type.dtype) << 16 | static_cast<uint64_t>(n.type.lanes) << 32;
    auto mix = [&h](uint64_t v) {
        h = (h ^ v) * 0x9e3779b97f4a7c15ull;
        h ^= h >> 29;
    };
    mix(static_cast<uint64_t>(n.payload));
    mix(static_cast<uint64_t>(n.buffer));
    for (ExprId a : n.args) mix(static_cast<uint64_t>(a));
    return static_cast<size_t>(h);
}

Expr Program::intern(const Node& n) {
    auto [it, fresh] = index_.try_emplace(n, static_cast<ExprId>(nodes_.size()));
    if (fresh) {
        nodes_.push_back(n);
        bool impure = n.op == Op::Load || n.op == Op::Gather || n.op == Op::Local;
        for (ExprId a : n.args)
            if (a != ExprId::none) impure = impure || impure_[static_cast<uint32_t>(a)];
        impure_.push_back(impure);
    }
    return {this, it->second};
}

int64_t Program::shuffle_table(const std::vector<int>& lanes) {
    for (size_t i = 0; i < shuffles_.size(); ++i)
        if (shuffles_[i] == lanes) return static_cast<int64_t>(i);
    shuffles_.push_back(lanes);
    return static_cast<int64_t>(shuffles_.size() - 1);
}

int64_t Program::lookup_table(const LookupTable& entries) {
    for (size_t i = 0; i < lookups_.size(); ++i)
        if (std::bit_cast<std::array<uint32_t, 16>>(lookups_[i]) == std::bit_cast<std::array<uint32_t, 16>>(entries))
            return static_cast<int64_t>(i);
    lookups_.push_back(entries);
    return static_cast<int64_t>(lookups_.size() - 1);
}

}  // namespace opwright::loop
