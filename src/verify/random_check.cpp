#include "verify/random_check.h"

#include <iterator>

#include "lang/declaration.h"
#include "verify/random_program.h"

namespace opwright::verify {

CheckOptions random_options(uint64_t seed) {
    CheckOptions o;
    o.seed = seed;
    o.sizes.seed = seed;
    o.sizes.count = 3;
    o.sizes.max_work = 1 << 14;
    constexpr Pattern more[] = {Pattern::Nan, Pattern::Infinity, Pattern::Zeros, Pattern::Ties, Pattern::Extremes};
    o.patterns = {Pattern::Random, more[seed % std::size(more)]};
    return o;
}
// Different ones each time, longer than a vector among them.
math::SymValues random_base(uint64_t seed) {
    return {{"m", static_cast<int64_t>(1 + seed * 7 % 23)}, {"n", static_cast<int64_t>(1 + seed * 13 % 41)}};
}

std::string described(const math::Program& p) {
    const auto text = lang::declaration(p);
    return text.ok() ? *text : p.print();
}

RandomReport check_random(const Compile& target, uint64_t first, uint64_t count, size_t most, const MakeProgram& make) {
    RandomReport r;
    r.all.name = "random operators";
    for (uint64_t i = 0; i < count && r.failures.size() < most; ++i) {
        const uint64_t seed = first + i;
        const std::optional<math::Program> p = make(seed);
        if (!p) continue;
        ++r.programs;
        Report one = check_program(*p, target, random_options(seed), random_base(seed));
        r.all.add(one);
        if (one.failed) r.failures.push_back({seed, described(*p), std::move(one)});
    }
    return r;
}
RandomReport check_random(const Compile& target, uint64_t first, uint64_t count, size_t most) {
    return check_random(target, first, count, most, [](uint64_t seed) { return random_program(seed); });
}

}  // namespace opwright::verify
