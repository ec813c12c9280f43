// Compiled objects on disk, shared by all processes of the user. Every failure to read or write is a miss, never an error.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace opwright {

class ObjectCache {
public:
    // Keeps files in `folder` (made when first written), at most about max_bytes of them.
    ObjectCache(std::string folder, uint64_t max_bytes);

    // The object stored under a key, or nothing: absent, unreadable, or not what was written.
    std::optional<std::string> find(const std::string& key) const;
    // Replaces the file under the key at once (other processes see the old one or the new one); the least recently used
    // objects go when the folder has grown too large.
    void store(const std::string& key, std::string_view object) const;

    const std::string& folder() const { return folder_; }

private:
    void evict() const;
    std::string folder_;
    uint64_t max_bytes_;
};

// A key of 32 hexadecimal digits: XXH3-128 of the content, so equal content means equal key.
std::string cache_key(std::string_view content);

// The cache at OPWRIGHT_CACHE_DIR, else XDG_CACHE_HOME/opwright, else ~/.cache/opwright, of OPWRIGHT_CACHE_MB megabytes
// (256); null when OPWRIGHT_CACHE=0 or there is no place for it. The environment is read at each call.
std::optional<ObjectCache> default_cache();

}  // namespace opwright
