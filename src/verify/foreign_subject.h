// What subjects in other processes share. Private to foreign_*.cpp.
#pragma once
#include "verify/child.h"
#include "verify/foreign.h"

namespace opwright::verify {

// Tensors in a file that both processes map: each with its whole storage, so that what the other one does to inputs and
// guards comes back.
class ForeignMemory {
public:
    static Result<std::shared_ptr<ForeignMemory>> make();
    const std::string& path() const { return file_->path(); }
    // Copies all storages in. Where they lie now, in bytes of the file; element [0, 0, ...] of the view is at `offset`.
    struct Place {
        size_t begin = 0, end = 0, offset = 0;
    };
    Result<std::vector<Place>> put(const std::vector<View>& views);
    void take(const std::vector<View>& views) const;  // the storages back, after put() of the same views

private:
    std::unique_ptr<SharedFile> file_;
    unsigned char* data_ = nullptr;
};

}  // namespace opwright::verify
