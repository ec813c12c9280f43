#include "io/npy.h"

#include <fmt/format.h>

#include <bit>
#include <cctype>
#include <cstring>
#include <optional>

#include "io/file.h"

namespace opwright::io {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written in the machine's byte order");

constexpr std::string_view kMagic = "\x93NUMPY";
// numpy itself refuses headers above 10,000 bytes unless told otherwise; ours hold one shape of at most kMaxRank
// extents.
constexpr size_t kMaxHeader = 1 << 16;
constexpr size_t kMaxRank = 64;

Diagnostic malformed(const std::string& name, std::string_view reason) {
    return Diagnostic(fmt::format("'{}' is not a readable .npy file: {}.", name, reason), {},
                      "Write it again with numpy.save.");
}

struct Header {
    std::string descr;
    bool fortran = false;
    Shape shape;
};

// Reads the header: a Python dictionary literal with exactly the keys descr, fortran_order and shape.
class HeaderReader {
public:
    HeaderReader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

    Result<Header> read() {
        Header h;
        bool have_descr = false, have_order = false, have_shape = false;
        if (!eat('{')) return broken("the header does not begin with '{'");
        while (!eat('}')) {
            const auto key = quoted();
            if (!key) return broken("a key of the header is not a quoted name");
            if (!eat(':')) return broken(fmt::format("':' is missing after '{}'", *key));
            if (*key == "descr" && !have_descr) {
                have_descr = true;
                if (peek() == '[')
                    return Diagnostic(
                        fmt::format("'{}' holds records (a structured dtype), and a tensor has one element type.",
                                    name_),
                        {}, "Save each field on its own, for example numpy.save('x.npy', a['x']).");
                const auto d = quoted();
                if (!d) return broken("'descr' is not a quoted dtype");
                h.descr = *d;
            } else if (*key == "fortran_order" && !have_order) {
                have_order = true;
                if (word("True"))
                    h.fortran = true;
                else if (!word("False"))
                    return broken("'fortran_order' is neither True nor False");
            } else if (*key == "shape" && !have_shape) {
                have_shape = true;
                OPW_TRY(h.shape, shape());
            } else {
                return broken(fmt::format("the header's key '{}' is unknown or repeated", *key));
            }
            if (!eat(',') && peek() != '}') return broken("',' is missing between two entries of the header");
        }
        skip();
        if (at_ != text_.size()) return broken("the header goes on after '}'");
        if (!have_descr || !have_order || !have_shape)
            return broken("the header lacks one of 'descr', 'fortran_order' and 'shape'");
        return h;
    }

private:
    Diagnostic broken(std::string_view reason) const { return malformed(name_, reason); }
    void skip() {
        while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    }
    char peek() {
        skip();
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    bool eat(char c) {
        if (peek() != c) return false;
        ++at_;
        return true;
    }
    bool word(std::string_view w) {
        skip();
        if (text_.substr(at_, w.size()) != w) return false;
        at_ += w.size();
        return true;
    }
    std::optional<std::string> quoted() {
        const char q = peek();
        if (q != '\'' && q != '"') return std::nullopt;
        const size_t end = text_.find(q, at_ + 1);
        if (end == std::string_view::npos) return std::nullopt;
        std::string s(text_.substr(at_ + 1, end - at_ - 1));
        at_ = end + 1;
        return s;
    }
    Result<Shape> shape() {
        Shape s;
        if (!eat('(')) return broken("'shape' is not a tuple");
        while (!eat(')')) {
            skip();
            int64_t v = 0;
            const size_t begin = at_;
            for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])); ++at_)
                if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, text_[at_] - '0', &v))
                    return broken("an extent of 'shape' does not fit 64 bits");
            if (at_ == begin) return broken("an extent of 'shape' is not a whole number from 0 up");
            if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // written by Python 2
            if (s.size() == kMaxRank) return broken(fmt::format("'shape' has more than {} extents", kMaxRank));
            s.push_back(v);
            if (!eat(',') && peek() != ')') return broken("',' is missing between two extents of 'shape'");
        }
        return s;
    }

    std::string_view text_;
    const std::string& name_;
    size_t at_ = 0;
};

struct ElementType {
    DType dtype;
    bool swap;
};

Result<ElementType> element_type(const std::string& descr, const std::string& name) {
    std::string_view d = descr;
    char order = '=';
    if (!d.empty() && std::string_view("<>|=").find(d[0]) != std::string_view::npos) {
        order = d[0];
        d.remove_prefix(1);
    }
    static constexpr std::pair<std::string_view, DType> kTypes[] = {
        {"b1", DType::Bool}, {"?", DType::Bool},  {"i1", DType::I8},         {"i2", DType::I16}, {"i4", DType::I32},
        {"i8", DType::I64},  {"u1", DType::U8},   {"u2", DType::U16},        {"u4", DType::U32}, {"u8", DType::U64},
        {"f2", DType::F16},  {"V2", DType::BF16}, {"bfloat16", DType::BF16}, {"f4", DType::F32}, {"f8", DType::F64}};
    for (const auto& [text, dtype] : kTypes)
        if (d == text) return ElementType{dtype, order == '>' && size_of(dtype) > 1};
    Diagnostic bad(fmt::format("'{}' holds elements of NumPy type '{}', which Opwright does not have.", name, descr));
    switch (d.empty() ? '\0' : d[0]) {
        case 'O': return bad.with_next("Pickled objects are never loaded; save a numeric array instead.");
        case 'c': return bad.with_next("Save the real and the imaginary part as two arrays.");
        case 'S':
        case 'U': return bad.with_next("Text is no tensor; save numbers (for example codes) instead.");
        default: return bad.with_next("Convert it first, for example with .astype('float32').");
    }
}

// Copies elements stored in Fortran order (first index fastest) to row-major order.
void transpose_from_fortran(const char* from, char* to, const Shape& shape, size_t element) {
    const size_t rank = shape.size();
    std::vector<int64_t> index(rank, 0), stride(rank, 1);
    for (size_t d = 1; d < rank; ++d) stride[d] = stride[d - 1] * shape[d - 1];
    const int64_t n = element_count(shape);
    for (int64_t i = 0, source = 0; i < n; ++i) {
        std::memcpy(to + static_cast<size_t>(i) * element, from + static_cast<size_t>(source) * element, element);
        for (size_t d = rank; d-- > 0;) {
            source += stride[d];
            if (++index[d] < shape[d]) break;
            source -= stride[d] * shape[d];
            index[d] = 0;
        }
    }
}

void swap_bytes(char* data, int64_t n, size_t element) {
    for (int64_t i = 0; i < n; ++i, data += element)
        for (size_t a = 0, b = element - 1; a < b; ++a, --b) std::swap(data[a], data[b]);
}

std::string_view numpy_descr(DType t) {
    switch (t) {
        case DType::Bool: return "|b1";
        case DType::I8: return "|i1";
        case DType::I16: return "<i2";
        case DType::I32: return "<i4";
        case DType::I64: return "<i8";
        case DType::U8: return "|u1";
        case DType::U16: return "<u2";
        case DType::U32: return "<u4";
        case DType::U64: return "<u8";
        case DType::F16: return "<f2";
        case DType::BF16: return "<V2";
        case DType::F32: return "<f4";
        case DType::F64: return "<f8";
    }
    __builtin_unreachable();
}

}  // namespace

Result<Tensor> parse_npy(std::string_view bytes, const std::string& name) {
    if (bytes.substr(0, kMagic.size()) != kMagic) return malformed(name, "it does not begin with NumPy's mark");
    if (bytes.size() < 10) return malformed(name, "it ends inside its first ten bytes");
    const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(bytes[i])); };
    const size_t version = byte(6);
    if (version < 1 || version > 3)
        return malformed(name,
                         fmt::format("its format version is {}.{}, and versions 1 to 3 are known", version, byte(7)));
    size_t length = byte(8) | byte(9) << 8, start = 10;
    if (version >= 2) {
        if (bytes.size() < 12) return malformed(name, "it ends inside the length of its header");
        length |= byte(10) << 16 | byte(11) << 24;
        start = 12;
    }
    if (length > kMaxHeader)
        return malformed(name, fmt::format("its header claims {} bytes, and {} are the limit", length, kMaxHeader));
    if (bytes.size() - start < length)
        return malformed(name,
                         fmt::format("its header claims {} bytes, and {} are left", length, bytes.size() - start));
    OPW_TRY(const Header header, HeaderReader(bytes.substr(start, length), name).read());
    OPW_TRY(const ElementType type, element_type(header.descr, name));
    const std::string_view data = bytes.substr(start + length);
    const int64_t count = element_count(header.shape);
    const size_t element = size_of(type.dtype);
    if (count < 0 || static_cast<uint64_t>(count) > data.size() / element)
        return malformed(name, fmt::format("shape {} of {} needs more than the {} bytes of data that it has",
                                           to_string(header.shape), opwright::name(type.dtype), data.size()));
    Tensor t(type.dtype, header.shape);
    char* to = static_cast<char*>(t.data());
    if (header.fortran && header.shape.size() > 1)
        transpose_from_fortran(data.data(), to, header.shape, element);
    else if (t.bytes() > 0)
        std::memcpy(to, data.data(), t.bytes());
    if (type.swap) swap_bytes(to, count, element);
    if (type.dtype == DType::Bool)
        for (int64_t i = 0; i < count; ++i) to[i] = to[i] != 0;
    return t;
}

Result<Tensor> read_npy(const std::string& path) {
    OPW_TRY(const std::string bytes, read_file(path));
    return parse_npy(bytes, path);
}

std::string npy_bytes(const Tensor& t) {
    std::string shape;
    for (int64_t extent : t.shape()) shape += fmt::format("{}, ", extent);
    if (t.rank() > 1)
        shape.resize(shape.size() - 2);
    else if (t.rank() == 1)
        shape.pop_back();
    std::string header =
        fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", numpy_descr(t.dtype()), shape);
    const bool version_2 = header.size() + 64 > 0xffff;
    const size_t prefix = version_2 ? 12 : 10;
    header.append(63 - (prefix + header.size()) % 64, ' ');
    header += '\n';
    std::string out(kMagic);
    out += version_2 ? '\2' : '\1';
    out += '\0';
    for (size_t i = 0; i < (version_2 ? 4u : 2u); ++i) out += static_cast<char>(header.size() >> (8 * i) & 0xff);
    out += header;
    out.append(static_cast<const char*>(t.data()), t.bytes());
    return out;
}

Status write_npy(const std::string& path, const Tensor& t) { return write_file(path, npy_bytes(t)); }

}  // namespace opwright::io
