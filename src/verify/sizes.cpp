#include "verify/sizes.h"

#include <algorithm>
#include <limits>
#include <random>
#include <set>

#include "derive/cost.h"
#include "derive/shape.h"

namespace opwright::verify {
using namespace math;
namespace {
constexpr int64_t kUncountable = std::numeric_limits<int64_t>::max();

bool is_prime(int64_t n) {
    for (int64_t d = 2; d * d <= n; ++d)
        if (n % d == 0) return false;
    return n > 1;
}
int64_t prime_after(int64_t n) {
    for (++n; !is_prime(n);) ++n;
    return n;
}

class Chooser {
public:
    Chooser(const Program& p, const SizeOptions& o) : p_(p), o_(o), flops_(derive::cost(p).flops()) {}

    bool add(const SymValues& v) {
        if (found_.size() >= o_.count || !seen_.insert(v).second) return false;
        if (work(v) > o_.max_work || !derive::check_requirements(p_, v).ok() || !derive::output_shapes(p_, v).ok())
            return false;
        for (const TensorInfo& t : p_.tensors)
            for (const Sym& s : t.shape)
                if (evaluate(s, v).value_or(-1) < 0) return false;
        found_.push_back(v);
        return true;
    }
    int64_t work(const SymValues& v) const {
        double total = 0;
        const auto f = evaluate(flops_, v);
        if (!f) return kUncountable;
        total += static_cast<double>(std::max<int64_t>(*f, 0));
        for (const TensorInfo& t : p_.tensors) {
            double n = 1;
            for (const Sym& s : t.shape) {
                const auto e = evaluate(s, v);
                if (!e) return kUncountable;
                n *= static_cast<double>(std::max<int64_t>(*e, 0));
            }
            total += n;
        }
        return total < 1e18 ? static_cast<int64_t>(total) : kUncountable;
    }
    bool full() const { return found_.size() >= o_.count; }
    std::vector<SymValues> take() { return std::move(found_); }

private:
    const Program& p_;
    const SizeOptions& o_;
    Sym flops_;
    std::vector<SymValues> found_;
    std::set<SymValues> seen_;
};
}  // namespace

std::vector<int64_t> edge_extents(const std::vector<int64_t>& tiles) {
    std::set<int64_t> r{0, 1, 2, 3};
    for (int64_t w : tiles) r.insert({std::max<int64_t>(w - 1, 0), w, w + 1, prime_after(w + 1)});
    return {r.begin(), r.end()};
}

std::vector<int64_t> usable_widths(std::vector<int64_t> widths) {
    std::set<int64_t> r(widths.begin(), widths.end());
    std::erase_if(r, [](int64_t w) { return w < 2; });
    if (r.empty()) return kUsualWidths;
    return {r.begin(), r.end()};
}

int64_t work_of(const Program& p, const SymValues& values) { return Chooser(p, {}).work(values); }

std::vector<SymValues> edge_sizes(const Program& p, const SymValues& base, const SizeOptions& o,
                                  const SymValues& fixed) {
    Chooser chooser(p, o);
    SymValues start = base;
    for (auto& [n, v] : fixed) start[n] = v;
    std::vector<std::string> names = p.symbols();
    for (const std::string& n : names) start.emplace(n, 3);
    std::erase_if(names, [&](const std::string& n) { return fixed.count(n) > 0; });
    chooser.add(start);
    if (names.empty()) return chooser.take();

    const std::vector<int64_t>& tiles = o.tiles.empty() ? kUsualWidths : o.tiles;
    const std::vector<int64_t> extents = edge_extents(tiles);
    const auto with = [&](const std::string& n, int64_t e) {
        SymValues v = start;
        v[n] = e;
        if (chooser.work(v) > o.max_work)
            for (const std::string& other : names)
                if (other != n) v[other] = 1;
        return v;
    };
    // Huge but thin: beyond every tile, and as much as the work allows.
    const auto thin = [&](const std::string& n) {
        SymValues v = start;
        for (const std::string& other : names) v[other] = 1;
        for (int64_t e = 2; e <= o.max_work; e *= 2) {
            SymValues wider = v;
            wider[n] = e + 1;
            if (chooser.work(wider) > o.max_work / 2) break;
            v = wider;
        }
        return v;
    };
    // The symbols take turns, so that a limit on the count does not favour the first; the last is innermost, mostly.
    std::vector<std::pair<std::string, int64_t>> turns;
    for (int64_t e : extents)
        for (auto n = names.rbegin(); n != names.rend(); ++n) turns.emplace_back(*n, e);
    std::mt19937_64 random(o.seed);
    if (turns.size() > o.count / 2)
        std::shuffle(turns.begin() + static_cast<long>(std::min(turns.size(), 2 * names.size())), turns.end(), random);
    size_t budget = std::max<size_t>(o.count * 2 / 3, 2);
    for (auto& [n, e] : turns)
        if (budget && chooser.add(with(n, e))) --budget;
    for (int64_t e : {int64_t{1}, tiles[0] + 1}) {
        SymValues v = start;
        for (const std::string& n : names) v[n] = e;
        chooser.add(v);
    }
    for (const std::string& n : names) chooser.add(thin(n));
    for (int tries = 0; tries < 400 && !chooser.full(); ++tries) {
        SymValues v = start;
        for (const std::string& n : names) v[n] = extents[random() % extents.size()];
        chooser.add(v);
    }
    return chooser.take();
}

}  // namespace opwright::verify
