// The targets, one line each.
#include <fmt/format.h>

#include <vector>

#include "target/c/c.h"
#include "target/target.h"

namespace opwright::target {

std::span<const Target* const> targets() {
    static const std::vector<const Target*> all = {
        &c::c_target(),
    };
    return all;
}

Result<const Target*> find_target(std::string_view name) {
    std::string names;
    for (const Target* t : targets()) {
        if (t->name() == name) return t;
        names += fmt::format("{}{}", names.empty() ? "" : ", ", t->name());
    }
    return Diagnostic(fmt::format("There is no target \"{}\".", name), {}, fmt::format("The targets are {}.", names));
}

}  // namespace opwright::target
