// Identifiers of generated source: the declaration's names where the language allows them, made different where two of
// them are the same.
#pragma once
#include <set>
#include <string>
#include <string_view>

namespace opwright::emit {

class Names {
public:
    // Words that the target's language keeps for itself; space separated.
    explicit Names(std::string_view reserved);
    // `wanted` with characters that no identifier has replaced by '_', and a number where the name is taken.
    std::string take(std::string_view wanted);
    // Gives a name back where its scope ends, so that loops beside each other may use the same.
    void release(const std::string& name) { taken_.erase(name); }
    // What `wanted` looks like as an identifier.
    static std::string identifier(std::string_view wanted);
    // What people call the extent of an index: "M" of m, "N_3" of n_3.
    static std::string extent(std::string_view symbol);

private:
    std::set<std::string> taken_;
};

}  // namespace opwright::emit
