#include "io/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace opwright::io {
namespace {

class Descriptor {
public:
    explicit Descriptor(int fd) : fd_(fd) {}
    ~Descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const { return fd_; }
    bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

private:
    int fd_;
};

Diagnostic failure(std::string_view verb, const std::string& path, int code) {
    Diagnostic d(fmt::format("Cannot {} '{}': {}.", verb, path, std::strerror(code)));
    if (code == ENOENT)
        d.with_next(verb == "read" ? "Check the path; it is taken relative to the current folder."
                                   : "Create the folder first, or name another one.");
    if (code == EACCES || code == EPERM || code == EROFS)
        d.with_next(fmt::format("Check the permissions of the {}.", verb == "read" ? "file" : "folder"));
    if (code == ENOSPC) d.with_next("Free some space on this disk, or name a file on another one.");
    return d;
}

}  // namespace

Result<std::string> read_file(const std::string& path, uint64_t max_bytes) {
    Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd.get() < 0) return failure("read", path, errno);
    struct stat st;
    if (::fstat(fd.get(), &st) != 0) return failure("read", path, errno);
    if (S_ISDIR(st.st_mode))
        return Diagnostic(fmt::format("Cannot read '{}': it is a folder.", path), {}, "Name a file inside it.");
    if (!S_ISREG(st.st_mode))
        return Diagnostic(fmt::format("Cannot read '{}': it is not a regular file.", path), {},
                          "Save the data to a file first, then name that file.");
    const auto size = static_cast<uint64_t>(st.st_size);
    if (size > max_bytes)
        return Diagnostic(
            fmt::format("Cannot read '{}': it has {} bytes, and the limit here is {}.", path, size, max_bytes));
    std::string bytes(size, '\0');
    size_t done = 0;
    while (done < bytes.size()) {
        const ssize_t n = ::read(fd.get(), bytes.data() + done, std::min<size_t>(bytes.size() - done, size_t{1} << 30));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return failure("read", path, errno);
        if (n == 0) break;  // shortened by somebody else meanwhile
        done += static_cast<size_t>(n);
    }
    bytes.resize(done);
    return bytes;
}

Status write_file(const std::string& path, std::string_view bytes) {
    struct stat st;
    const bool exists = ::stat(path.c_str(), &st) == 0;
    if (exists && S_ISDIR(st.st_mode))
        return Diagnostic(fmt::format("Cannot write '{}': it is a folder.", path), {}, "Name a file inside it.");
    if (exists && !S_ISREG(st.st_mode)) {  // a pipe or a device cannot be replaced: write into it
        Descriptor fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
        if (fd.get() < 0) return failure("write", path, errno);
        while (!bytes.empty()) {
            const ssize_t n = ::write(fd.get(), bytes.data(), bytes.size());
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) return failure("write", path, errno);
            bytes.remove_prefix(static_cast<size_t>(n));
        }
        return ok_status();
    }
    // Same folder, so that the rename stays on one file system. mkostemp makes the name unique between processes.
    std::string temporary = path + ".XXXXXX";
    Descriptor fd(::mkostemp(temporary.data(), O_CLOEXEC));
    if (fd.get() < 0) return failure("write", path, errno);
    const auto give_up = [&](int code) {
        ::unlink(temporary.c_str());
        return failure("write", path, code);
    };
    const mode_t mask = ::umask(0);
    ::umask(mask);
    if (::fchmod(fd.get(), exists ? st.st_mode & 07777 : 0666 & ~mask) != 0) return give_up(errno);
    while (!bytes.empty()) {
        const ssize_t n = ::write(fd.get(), bytes.data(), std::min<size_t>(bytes.size(), size_t{1} << 30));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return give_up(errno);
        bytes.remove_prefix(static_cast<size_t>(n));
    }
    if (!fd.close()) return give_up(errno);
    if (::rename(temporary.c_str(), path.c_str()) != 0) return give_up(errno);
    return ok_status();
}

std::string extension(const std::string& path) {
    const size_t slash = path.find_last_of('/');
    const size_t dot = path.find_last_of('.');
    if (dot == std::string::npos || (slash != std::string::npos && dot < slash)) return "";
    std::string e = path.substr(dot);
    std::transform(e.begin(), e.end(), e.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return e;
}

}  // namespace opwright::io
