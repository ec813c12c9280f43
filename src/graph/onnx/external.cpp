#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "graph/onnx/decode.h"

namespace opwright::graph::onnx {
namespace fs = std::filesystem;

ExternalFiles::File::~File() {
    if (data) munmap(const_cast<char*>(data), size);
}

Result<std::shared_ptr<ExternalFiles::File>> ExternalFiles::open(const std::string& location) {
    if (auto it = open_.find(location); it != open_.end()) return it->second;
    if (folder_.empty())
        return Diagnostic(
            "The model keeps tensors in the file '" + location + "', and a model given as bytes has no folder.", {},
            "Load the model from its file, or save it with its tensors inside.");
    const auto outside = [&] {
        return Diagnostic("The model's external data '" + location + "' lie outside the model's folder.", {},
                          "Put the file beside the model and name it by a relative path.");
    };
    if (location.empty() || location.find('\0') != std::string::npos || fs::path(location).is_absolute())
        return outside();
    std::error_code error;
    const fs::path folder = fs::canonical(folder_, error);
    if (error) return Diagnostic("The model's folder '" + folder_ + "' cannot be read: " + error.message() + ".");
    const fs::path path = fs::canonical(folder / location, error);
    if (error)
        return Diagnostic("The model's external data '" + location + "' cannot be found in '" + folder_ +
                              "': " + error.message() + ".",
                          {}, "Copy the file beside the model.");
    const fs::path relative = path.lexically_relative(folder);
    if (relative.empty() || *relative.begin() == "..") return outside();

    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat info{};
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        if (fd >= 0) ::close(fd);
        return Diagnostic("The model's external data '" + location + "' are no file that can be read.");
    }
    auto file = std::make_shared<File>();
    if (info.st_size > 0) {
        // Private and writable, so that a tensor is memory like any other: writes stay in this process.
        void* p = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                       fd, 0);
        if (p == MAP_FAILED) {
            ::close(fd);
            return Diagnostic("The model's external data '" + location + "' cannot be mapped into memory.");
        }
        file->data = static_cast<const char*>(p);
        file->size = static_cast<uint64_t>(info.st_size);
    }
    ::close(fd);
    open_.emplace(location, file);
    return file;
}

}  // namespace opwright::graph::onnx
