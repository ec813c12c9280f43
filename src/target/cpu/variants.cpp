#include "target/cpu/variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

namespace opwright::target::cpu {
namespace {

class TunedKernel final : public Kernel {
public:
    TunedKernel(std::vector<Variant> variants, double reach) : variants_(std::move(variants)), reach_(reach) {
        for (const Variant& v : variants_)
            if (!v.measured_at.empty()) measured_.push_back(v.sizes);
        untuned_ = variants_.size() - measured_.size();
    }

    int64_t workspace_bytes(std::span<const int64_t> s) const override { return at(s).workspace_bytes(s); }
    Status run(const Launch& l, runtime::ThreadPool& pool) const override { return at(l.symbols).run(l, pool); }

    // One variant packs beforehand, as ever. Of several, each packs when it first runs: most are never wanted, and
    // panels of all of them would take the weights' memory several times.
    bool pack_constants(std::span<const void* const> constants, runtime::ThreadPool& pool) override {
        if (!single()) return false;
        return variants_[0].kernel->pack_constants(constants, pool);
    }
    const std::vector<bool>& packed() const override {
        if (single()) return variants_[0].kernel->packed();
        if (nothing_packed_.empty()) nothing_packed_.resize(variants_[0].kernel->packed().size());
        return nothing_packed_;
    }

    std::string text(const std::string& level) const override {
        std::string r = variants_[0].kernel->text(level);
        if (level != "schedule") return r;
        for (size_t i = untuned_; i < variants_.size(); ++i) {
            if (single()) r += tuned(variants_[i].sizes) + "\n";
            else r += fmt::format("at sizes {} ({}):\n{}", fmt::join(variants_[i].sizes, ", "), tuned(variants_[i].sizes),
                                  variants_[i].kernel->text(level));
        }
        return r;
    }
    std::string schedule_summary() const override { return variants_[0].kernel->schedule_summary(); }
    std::vector<StageFacts> stages(std::span<const int64_t> s) const override { return at(s).stages(s); }
    std::vector<LoopFacts> loops(std::span<const int64_t> s) const override { return at(s).loops(s); }
    const Kernel& at(std::span<const int64_t> symbols) const override { return variants_[choose(symbols)].kernel->at(symbols); }
    std::string tuned(std::span<const int64_t> symbols) const override {
        const Variant& v = variants_[choose(symbols)];
        if (v.measured_at.empty() || v.gain <= 1) return {};
        return fmt::format("tuned: {:.2f}x over untuned on {}", v.gain, v.measured_at.substr(0, 10));
    }

private:
    bool single() const {
        return std::all_of(variants_.begin(), variants_.end(), [&](const Variant& v) { return v.kernel == variants_[0].kernel; });
    }
    size_t choose(std::span<const int64_t> symbols) const {
        if (symbols.empty()) return variants_.size() - 1;
        std::lock_guard lock(mutex_);
        if (!std::equal(symbols.begin(), symbols.end(), last_.begin(), last_.end()) || last_.empty()) {
            last_.assign(symbols.begin(), symbols.end());
            const int found = nearest(measured_, last_, reach_);
            chosen_ = found < 0 ? 0 : untuned_ + static_cast<size_t>(found);
        }
        return chosen_;
    }

    std::vector<Variant> variants_;
    double reach_;
    size_t untuned_ = 0;  // variants before those that were measured
    std::vector<std::vector<int64_t>> measured_;
    mutable std::vector<bool> nothing_packed_;
    mutable std::mutex mutex_;
    mutable std::vector<int64_t> last_;  // models run at one size again and again
    mutable size_t chosen_ = 0;
};
}  // namespace

KernelRef with_variants(std::vector<Variant> variants, double reach) {
    return std::make_shared<TunedKernel>(std::move(variants), reach);
}

}  // namespace opwright::target::cpu
