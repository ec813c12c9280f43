#include "io/npz.h"

#include <fmt/format.h>
#include <zip.h>

#include <memory>
#include <set>

#include "io/file.h"
#include "io/npy.h"

namespace opwright::io {
namespace {

// Deflate's highest ratio is 1032:1 (258 bytes out of two bits); the constant covers tiny members.
constexpr uint64_t kMaxRatio = 1032;
constexpr uint64_t kSlack = 4096;

struct DiscardArchive {
    void operator()(zip_t* z) const { zip_discard(z); }
};
struct CloseMember {
    void operator()(zip_file_t* f) const { zip_fclose(f); }
};
using Archive = std::unique_ptr<zip_t, DiscardArchive>;

Diagnostic malformed(const std::string& path, std::string_view reason) {
    return Diagnostic(fmt::format("'{}' is not a readable .npz file: {}.", path, reason), {},
                      "Write it again with numpy.savez.");
}

// Opens over `bytes`, which must stay alive; `source` belongs to the archive once it is open.
Result<Archive> open_archive(const std::string& path, const std::string& bytes) {
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
    zip_t* archive = source ? zip_open_from_source(source, ZIP_RDONLY, &error) : nullptr;
    if (!archive) {
        const std::string reason = zip_error_strerror(&error);
        if (source) zip_source_free(source);
        zip_error_fini(&error);
        return malformed(path, reason);
    }
    zip_error_fini(&error);
    return Archive(archive);
}

Result<std::string> read_member(zip_t* archive, zip_uint64_t index, const zip_stat_t& st, const std::string& path) {
    const std::string member = fmt::format("{}:{}", path, st.name);
    if (st.encryption_method != ZIP_EM_NONE) return malformed(member, "it is encrypted");
    if (st.comp_method != ZIP_CM_STORE && st.comp_method != ZIP_CM_DEFLATE)
        return malformed(member,
                         fmt::format("its compression method {} is neither stored nor deflated", st.comp_method));
    if (st.size > st.comp_size * (st.comp_method == ZIP_CM_STORE ? 1 : kMaxRatio) + kSlack)
        return malformed(member, fmt::format("it claims {} bytes out of {} compressed ones, which no member can hold",
                                             st.size, st.comp_size));
    std::unique_ptr<zip_file_t, CloseMember> file(zip_fopen_index(archive, index, 0));
    if (!file) return malformed(member, zip_strerror(archive));
    // Grown as data arrives: a wrong claim costs no more memory than the data that is really there.
    std::string bytes;
    while (bytes.size() < st.size) {
        const size_t have = bytes.size();
        const size_t want = static_cast<size_t>(std::min<uint64_t>(st.size - have, uint64_t{1} << 24));
        bytes.resize(have + want);
        const zip_int64_t n = zip_fread(file.get(), bytes.data() + have, want);
        if (n < 0) return malformed(member, zip_file_strerror(file.get()));
        bytes.resize(have + static_cast<size_t>(n));
        if (n == 0) return malformed(member, fmt::format("it claims {} bytes and holds {}", st.size, have));
    }
    // libzip compares the checksum when it meets the member's end.
    char beyond;
    const zip_int64_t rest = zip_fread(file.get(), &beyond, 1);
    if (rest < 0) return malformed(member, zip_file_strerror(file.get()));
    if (rest > 0) return malformed(member, fmt::format("it holds more than the {} bytes that it claims", st.size));
    return bytes;
}

}  // namespace

Result<std::vector<NamedTensor>> parse_npz(const std::string& bytes, const std::string& path) {
    if (bytes.empty()) return malformed(path, "it is empty");
    OPW_TRY(const Archive archive, open_archive(path, bytes));
    std::vector<NamedTensor> tensors;
    std::set<std::string> names;
    uint64_t total = 0;  // members may share compressed bytes: the sum is bounded by the file's length as well
    const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
    for (zip_int64_t i = 0; i < count; ++i) {
        zip_stat_t st;
        const auto index = static_cast<zip_uint64_t>(i);
        constexpr zip_uint64_t needed = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
        if (zip_stat_index(archive.get(), index, 0, &st) != 0) return malformed(path, zip_strerror(archive.get()));
        if ((st.valid & needed) != needed) return malformed(path, fmt::format("member {} has no name or no size", i));
        if (!(st.valid & ZIP_STAT_ENCRYPTION_METHOD)) st.encryption_method = ZIP_EM_NONE;
        std::string name = st.name;
        if (extension(name) != ".npy") return malformed(path, fmt::format("its member '{}' is no .npy file", name));
        name.resize(name.size() - 4);
        if (!names.insert(name).second) return malformed(path, fmt::format("two members are called '{}'", name));
        if (__builtin_add_overflow(total, st.size, &total) || total > bytes.size() * kMaxRatio + kSlack)
            return malformed(path, "its members together claim more bytes than a file of its length can hold");
        OPW_TRY(const std::string member, read_member(archive.get(), index, st, path));
        OPW_TRY(Tensor tensor, parse_npy(member, fmt::format("{}:{}", path, st.name)));
        tensors.push_back({std::move(name), std::move(tensor)});
    }
    return tensors;
}

Result<std::vector<NamedTensor>> read_npz(const std::string& path) {
    OPW_TRY(const std::string bytes, read_file(path));
    return parse_npz(bytes, path);
}

Status write_npz(const std::string& path, const std::vector<NamedTensor>& tensors) {
    if (tensors.empty()) return Diagnostic(fmt::format("Cannot write '{}': there is no tensor to put into it.", path));
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t* target = zip_source_buffer_create(nullptr, 0, 0, &error);
    if (!target) return Diagnostic(fmt::format("Cannot write '{}': {}.", path, zip_error_strerror(&error)));
    zip_source_keep(target);  // read back after the archive is closed
    const std::unique_ptr<zip_source_t, decltype(&zip_source_free)> keep(target, zip_source_free);
    Archive archive(zip_open_from_source(target, ZIP_TRUNCATE, &error));
    if (!archive) {
        zip_source_free(target);
        return Diagnostic(fmt::format("Cannot write '{}': {}.", path, zip_error_strerror(&error)));
    }
    std::vector<std::string> members;  // libzip reads them while it closes
    members.reserve(tensors.size());
    for (const NamedTensor& t : tensors) {
        members.push_back(npy_bytes(t.tensor));
        zip_source_t* source = zip_source_buffer(archive.get(), members.back().data(), members.back().size(), 0);
        const zip_int64_t index =
            source ? zip_file_add(archive.get(), (t.name + ".npy").c_str(), source, ZIP_FL_ENC_UTF_8) : -1;
        if (index < 0) {
            if (source) zip_source_free(source);
            return Diagnostic(
                fmt::format("Cannot write tensor '{}' to '{}': {}.", t.name, path, zip_strerror(archive.get())));
        }
        zip_set_file_compression(archive.get(), static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
        // A fixed date (1980-01-01), so that equal tensors give equal files.
        zip_file_set_dostime(archive.get(), static_cast<zip_uint64_t>(index), 0, (1 << 5) | 1, 0);
    }
    if (zip_close(archive.get()) != 0)
        return Diagnostic(fmt::format("Cannot write '{}': {}.", path, zip_strerror(archive.get())));
    archive.release();  // closed
    zip_stat_t st;
    if (zip_source_stat(target, &st) != 0 || zip_source_open(target) != 0)
        return Diagnostic(fmt::format("Cannot write '{}': the archive cannot be read back.", path));
    std::string bytes(st.size, '\0');
    const zip_int64_t n = zip_source_read(target, bytes.data(), bytes.size());
    zip_source_close(target);
    if (n != static_cast<zip_int64_t>(bytes.size()))
        return Diagnostic(fmt::format("Cannot write '{}': the archive cannot be read back.", path));
    return write_file(path, bytes);
}

}  // namespace opwright::io
