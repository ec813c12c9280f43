#include <fmt/format.h>

#include <cstring>

#include "verify/foreign_subject.h"

namespace opwright::verify {
namespace {
// Where each storage begins: it keeps its address modulo 64, so that alignment is the same in the other process.
std::vector<size_t> places(const std::vector<View>& views, size_t& end) {
    std::vector<size_t> r;
    end = 0;
    for (const View& v : views) {
        const size_t want = reinterpret_cast<uintptr_t>(v.storage.data()) % 64;
        end += (want + 64 - end % 64) % 64;
        r.push_back(end);
        end += v.storage.size();
    }
    return r;
}
}  // namespace

Result<std::shared_ptr<ForeignMemory>> ForeignMemory::make() {
    auto r = std::make_shared<ForeignMemory>();
    OPW_TRY(r->file_, SharedFile::make());
    return r;
}

Result<std::vector<ForeignMemory::Place>> ForeignMemory::put(const std::vector<View>& views) {
    size_t end = 0;
    const std::vector<size_t> begins = places(views, end);
    data_ = file_->resize(end);
    if (!data_) return Diagnostic(fmt::format("There is no room for {} bytes of tensors in '{}'.", end, file_->path()));
    std::vector<Place> r;
    for (size_t i = 0; i < views.size(); ++i) {
        const auto& storage = views[i].storage;
        std::memcpy(data_ + begins[i], storage.data(), storage.size());
        r.push_back(
            {begins[i], begins[i] + storage.size(), begins[i] + static_cast<size_t>(views[i].data - storage.data())});
    }
    return r;
}

void ForeignMemory::take(const std::vector<View>& views) const {
    size_t end = 0;
    const std::vector<size_t> begins = places(views, end);
    for (size_t i = 0; i < views.size(); ++i)
        std::memcpy(views[i].storage.data(), data_ + begins[i], views[i].storage.size());
}

}  // namespace opwright::verify
