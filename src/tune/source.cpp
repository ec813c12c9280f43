#include "tune/source.h"

#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "tune/database.h"
#include "tune/kernel.h"

namespace opwright::tune {
namespace {

class Source final : public target::TunedSource {
public:
    Source(std::unique_ptr<Database> db, int threads) : db_(std::move(db)), threads_(threads) {}

    std::vector<target::TunedSchedule> find(std::string_view target, std::string_view unit, const std::string& content) const override {
        std::lock_guard lock(mutex_);
        const auto found = db_->winners(content, std::string(target), machine_text(target, unit, threads_), emitter_text(target));
        std::vector<target::TunedSchedule> r;
        if (!found.ok()) return r;
        for (const Winner& w : *found)
            if (r.size() < kMost && w.gain >= 1 && w.gain < 1e6 && w.schedule.size() < 1 << 16)
                r.push_back({w.sizes, w.schedule, w.gain, w.measured_at});
        return r;
    }
    double reach() const override { return kReach; }

private:
    static constexpr size_t kMost = 16;  // sizes of one program
    std::unique_ptr<Database> db_;
    int threads_;
    mutable std::mutex mutex_;
};
}  // namespace

std::shared_ptr<const target::TunedSource> tuned_schedules(int threads, std::string& problem) {
    if (const char* on = std::getenv("OPWRIGHT_TUNING"); on && std::string(on) == "0") return nullptr;
    const auto path = default_path();
    std::error_code ignored;
    if (!path || !std::filesystem::exists(*path, ignored)) return nullptr;
    auto db = Database::open(*path, Database::Mode::Read);
    if (!db.ok()) {
        problem = db.error().message + " Kernels run untuned. " + db.error().next;
        return nullptr;
    }
    return std::make_shared<Source>(std::move(*db), threads);
}

}  // namespace opwright::tune
