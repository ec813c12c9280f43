#include "base/object_cache.h"

#define XXH_INLINE_ALL
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

namespace opwright {
namespace {
namespace fs = std::filesystem;

// A cached file is this header and then the object.
struct Header {
    char magic[8];
    uint64_t bytes;
    uint64_t hash[2];
};
constexpr char kMagic[8] = {'o', 'p', 'w', 'o', 'b', 'j', '1', '\n'};
constexpr uint64_t kStoresBetweenEvictions = 32;

Header header_of(std::string_view object) {
    Header h{};
    std::memcpy(h.magic, kMagic, sizeof kMagic);
    h.bytes = object.size();
    const XXH128_hash_t x = XXH3_128bits(object.data(), object.size());
    h.hash[0] = x.low64, h.hash[1] = x.high64;
    return h;
}

bool read_all(int fd, char* to, size_t bytes) {
    while (bytes > 0) {
        const ssize_t n = ::read(fd, to, bytes);
        if (n <= 0) return false;
        to += n, bytes -= static_cast<size_t>(n);
    }
    return true;
}

bool write_all(int fd, const char* from, size_t bytes) {
    while (bytes > 0) {
        const ssize_t n = ::write(fd, from, bytes);
        if (n <= 0) return false;
        from += n, bytes -= static_cast<size_t>(n);
    }
    return true;
}

std::string path_of(const std::string& folder, const std::string& key) { return folder + "/" + key + ".o"; }

}  // namespace

ObjectCache::ObjectCache(std::string folder, uint64_t max_bytes) : folder_(std::move(folder)), max_bytes_(max_bytes) {}

std::optional<std::string> ObjectCache::find(const std::string& key) const {
    const int fd = ::open(path_of(folder_, key).c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return std::nullopt;
    std::optional<std::string> object;
    struct stat st {};
    Header h{};
    if (::fstat(fd, &st) == 0 && read_all(fd, reinterpret_cast<char*>(&h), sizeof h) &&
        std::memcmp(h.magic, kMagic, sizeof kMagic) == 0 && static_cast<uint64_t>(st.st_size) == sizeof h + h.bytes) {
        std::string content(h.bytes, '\0');
        if (read_all(fd, content.data(), content.size())) {
            const Header actual = header_of(content);
            if (std::memcmp(&actual, &h, sizeof h) == 0) object = std::move(content);
        }
    }
    if (object) ::futimens(fd, nullptr);  // used now: eviction takes the oldest first
    ::close(fd);
    return object;
}

void ObjectCache::store(const std::string& key, std::string_view object) const {
    std::error_code error;
    fs::create_directories(folder_, error);
    static std::atomic<uint64_t> counter{0};
    const uint64_t serial = counter++;
    const std::string temporary =
        folder_ + "/" + key + "." + std::to_string(::getpid()) + "." + std::to_string(serial) + ".tmp";
    const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) return;
    const Header h = header_of(object);
    bool written = write_all(fd, reinterpret_cast<const char*>(&h), sizeof h) && write_all(fd, object.data(), object.size());
    written = ::close(fd) == 0 && written;
    if (!written || ::rename(temporary.c_str(), path_of(folder_, key).c_str()) != 0) ::unlink(temporary.c_str());
    if (serial % kStoresBetweenEvictions == 0) evict();
}

void ObjectCache::evict() const {
    struct File {
        fs::path path;
        uint64_t bytes;
        fs::file_time_type used;
    };
    std::vector<File> files;
    uint64_t total = 0;
    std::error_code error;
    const auto now = fs::file_time_type::clock::now();
    for (const auto& entry : fs::directory_iterator(folder_, error)) {
        const auto used = entry.last_write_time(error);
        if (error) continue;  // gone meanwhile
        const std::string extension = entry.path().extension();
        if (extension == ".tmp" && now - used > std::chrono::hours(1)) fs::remove(entry.path(), error);  // left by a crash
        if (extension != ".o") continue;
        const uint64_t bytes = entry.file_size(error);
        if (error) continue;
        files.push_back({entry.path(), bytes, used});
        total += bytes;
    }
    if (total <= max_bytes_) return;
    std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.used < b.used; });
    for (const File& f : files) {
        if (total <= max_bytes_ / 4 * 3) break;
        if (fs::remove(f.path, error)) total -= f.bytes;
    }
}

std::string cache_key(std::string_view content) {
    const XXH128_hash_t x = XXH3_128bits(content.data(), content.size());
    static constexpr char digits[] = "0123456789abcdef";
    std::string key;
    for (uint64_t part : {x.high64, x.low64})
        for (int shift = 60; shift >= 0; shift -= 4) key += digits[part >> shift & 15];
    return key;
}

std::optional<ObjectCache> default_cache() {
    auto value = [](const char* name) {
        const char* v = std::getenv(name);
        return std::string(v ? v : "");
    };
    if (value("OPWRIGHT_CACHE") == "0") return std::nullopt;
    uint64_t megabytes = 256;
    if (const std::string mb = value("OPWRIGHT_CACHE_MB"); !mb.empty()) megabytes = std::strtoull(mb.c_str(), nullptr, 10);
    std::string folder = value("OPWRIGHT_CACHE_DIR");
    if (folder.empty() && !value("XDG_CACHE_HOME").empty()) folder = value("XDG_CACHE_HOME") + "/opwright";
    if (folder.empty() && !value("HOME").empty()) folder = value("HOME") + "/.cache/opwright";
    if (folder.empty()) return std::nullopt;
    return ObjectCache(folder, megabytes << 20);
}

}  // namespace opwright
