#include "io/npy.h"

#include <gtest/gtest.h>

#include <cstring>

#include "io/file.h"
#include "io_test_util.h"

namespace opwright::io {
namespace {

// A version 1.0 file around a header dictionary.
std::string npy(std::string header, std::string_view data) {
    std::string out("\x93NUMPY\1\0", 8);
    header += '\n';
    out += static_cast<char>(header.size() & 0xff);
    out += static_cast<char>(header.size() >> 8);
    return out + header + std::string(data);
}
std::string header(std::string_view descr, std::string_view shape, bool fortran = false) {
    return "{'descr': '" + std::string(descr) + "', 'fortran_order': " + (fortran ? "True" : "False") +
           ", 'shape': " + std::string(shape) + ", }";
}
std::string fault(const std::string& bytes) {
    const auto r = parse_npy(bytes, "t.npy");
    return r.ok() ? "accepted" : r.error().message;
}

TEST(IoNpy, KeepsEveryDtypeAndShape) {
    for (int d = 0; d < kDTypeCount; ++d) {
        const auto dtype = static_cast<DType>(d);
        for (const Shape& shape : {Shape{}, Shape{0}, Shape{5}, Shape{2, 3}, Shape{2, 0, 3}, Shape{1, 2, 3, 4}}) {
            Tensor t(dtype, shape);
            for (int64_t i = 0; i < t.size(); ++i) t.set_int(i, dtype == DType::Bool ? i % 2 : i + 1);
            const std::string bytes = npy_bytes(t);
            EXPECT_EQ((bytes.size() - t.bytes()) % 64, 0u);
            const auto r = parse_npy(bytes, "t.npy");
            ASSERT_TRUE(r.ok()) << r.error().message;
            EXPECT_EQ(r->dtype(), dtype);
            EXPECT_EQ(r->shape(), shape);
            EXPECT_EQ(std::memcmp(r->data(), t.data(), t.bytes()), 0);
        }
    }
}

TEST(IoNpy, WritesWhatNumpyWrites) {
    Tensor t(DType::F32, {2});
    t.set(0, 1.5);
    t.set(1, -2);
    EXPECT_EQ(npy_bytes(t), from_hex("934e554d5059010076007b276465736372273a20273c6634272c2027666f727472616e5f6f7264657"
                                     "2273a2046616c73652c20277368"
                                     "617065273a2028322c292c207d2020202020202020202020202020202020202020202020202020202"
                                     "020202020202020202020202020"
                                     "202020202020202020202020202020202020200a0000c03f000000c0"));
}

TEST(IoNpy, ReadsFortranOrder) {
    // numpy.asfortranarray([[1, 2, 3], [4, 5, 6]])
    const auto r = parse_npy(npy(header("|u1", "(2, 3)", true), std::string_view("\1\4\2\5\3\6", 6)), "t.npy");
    ASSERT_TRUE(r.ok());
    for (int i = 0; i < 6; ++i) EXPECT_EQ(r->get_int(i), i + 1);
    // Three axes: element (i, j, k) of shape (2, 3, 2) lies at i + 2 j + 6 k.
    std::string data(12, '\0');
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 3; ++j)
            for (int k = 0; k < 2; ++k)
                data[static_cast<size_t>(i + 2 * j + 6 * k)] = static_cast<char>(i * 6 + j * 2 + k);
    const auto cube = parse_npy(npy(header("|i1", "(2, 3, 2)", true), data), "t.npy");
    ASSERT_TRUE(cube.ok());
    for (int i = 0; i < 12; ++i) EXPECT_EQ(cube->get_int(i), i);
}

TEST(IoNpy, ReadsBigEndian) {
    const auto r = parse_npy(npy(header(">i4", "(2,)"), std::string_view("\0\0\1\2\xff\xff\xff\xfe", 8)), "t.npy");
    ASSERT_TRUE(r.ok());
    EXPECT_EQ(r->get_int(0), 258);
    EXPECT_EQ(r->get_int(1), -2);
    const auto h = parse_npy(npy(header(">f2", "()"), std::string_view("\x3c\0", 2)), "t.npy");
    ASSERT_TRUE(h.ok());
    EXPECT_EQ(h->get(0), 1.0);
}

TEST(IoNpy, ReadsVersions2And3AndPython2Extents) {
    const std::string dictionary = header("<i2", "(1L,)") + "\n";
    for (char version : {'\2', '\3'}) {
        std::string bytes("\x93NUMPY", 6);
        bytes += version;
        bytes += std::string("\0", 1) + static_cast<char>(dictionary.size()) + std::string("\0\0\0", 3);
        const auto r = parse_npy(bytes + dictionary + std::string("\7\0", 2), "t.npy");
        ASSERT_TRUE(r.ok()) << r.error().message;
        EXPECT_EQ(r->get_int(0), 7);
    }
}

TEST(IoNpy, ReadsBoolAsZeroOrOneAndV2AsBf16) {
    const auto b = parse_npy(npy(header("|b1", "(3,)"), std::string_view("\0\2\1", 3)), "t.npy");
    ASSERT_TRUE(b.ok());
    EXPECT_EQ(b->as<uint8_t>()[1], 1);
    const auto h = parse_npy(npy(header("|V2", "()"), std::string_view("\x80\x3f", 2)), "t.npy");
    ASSERT_TRUE(h.ok());
    EXPECT_EQ(h->dtype(), DType::BF16);
    EXPECT_EQ(h->get(0), 1.0);
}

TEST(IoNpy, NamesWhatIsWrong) {
    EXPECT_EQ(fault(""), "'t.npy' is not a readable .npy file: it does not begin with NumPy's mark.");
    EXPECT_EQ(fault("\x93NUMPY\1"), "'t.npy' is not a readable .npy file: it ends inside its first ten bytes.");
    EXPECT_EQ(fault(std::string("\x93NUMPY\4\0\0\0", 10)),
              "'t.npy' is not a readable .npy file: its format version is 4.0, and versions 1 to 3 are known.");
    EXPECT_EQ(fault(std::string("\x93NUMPY\1\0\xff\0", 10)),
              "'t.npy' is not a readable .npy file: its header claims 255 bytes, and 0 are left.");
    EXPECT_EQ(fault(std::string("\x93NUMPY\2\0\0\0\0\x7f", 12)),
              "'t.npy' is not a readable .npy file: its header claims 2130706432 bytes, and 65536 are the limit.");
    EXPECT_EQ(fault(npy(header("<f4", "(3,)"), "12345678")),
              "'t.npy' is not a readable .npy file: shape [3] of f32 needs more than the 8 bytes of data that it has.");
    EXPECT_EQ(fault(npy(header("<f4", "(4611686018427387904, 4)"), "1234")),
              "'t.npy' is not a readable .npy file: shape [4611686018427387904, 4] of f32 needs more than the 4 bytes "
              "of data that it has.");
    EXPECT_EQ(fault(npy(header("<f4", "(99999999999999999999,)"), "")),
              "'t.npy' is not a readable .npy file: an extent of 'shape' does not fit 64 bits.");
    EXPECT_EQ(fault(npy(header("<f4", "(-1,)"), "")),
              "'t.npy' is not a readable .npy file: an extent of 'shape' is not a whole number from 0 up.");
    EXPECT_EQ(fault(npy("{'descr': '<f4'}", "")),
              "'t.npy' is not a readable .npy file: the header lacks one of 'descr', 'fortran_order' and 'shape'.");
    EXPECT_EQ(fault(npy("__import__('os')", "")),
              "'t.npy' is not a readable .npy file: the header does not begin with '{'.");
    EXPECT_EQ(fault(npy(header("|O", "()"), "")),
              "'t.npy' holds elements of NumPy type '|O', which Opwright does not have.");
    EXPECT_EQ(fault(npy(header("<c8", "()"), "")),
              "'t.npy' holds elements of NumPy type '<c8', which Opwright does not have.");
    EXPECT_EQ(fault(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", "")),
              "'t.npy' holds records (a structured dtype), and a tensor has one element type.");
}

// Every prefix of a good file is refused, and no changed byte of the header makes the reader crash.
TEST(IoNpy, SurvivesDamage) {
    Tensor t(DType::F64, {2, 3});
    for (int64_t i = 0; i < 6; ++i) t.set(i, static_cast<double>(i));
    const std::string good = npy_bytes(t);
    for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(parse_npy(good.substr(0, n), "t.npy").ok()) << n;
    for (size_t i = 0; i < 128; ++i)
        for (int c = 0; c < 256; c += 3) {
            std::string bad = good;
            bad[i] = static_cast<char>(c);
            const auto r = parse_npy(bad, "t.npy");
            if (r.ok()) { EXPECT_LE(r->bytes(), t.bytes()); }
        }
}

TEST(IoFile, ReplacesInOneStepAndKeepsPermissions) {
    const ScratchFolder folder;
    const std::string path = folder / "x.bin";
    ASSERT_TRUE(write_file(path, "one").ok());
    std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    ASSERT_TRUE(write_file(path, std::string("t\0o", 3)).ok());
    EXPECT_EQ(*read_file(path), std::string("t\0o", 3));
    EXPECT_EQ(std::filesystem::status(path).permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(IoFile, NamesWhatIsWrong) {
    const ScratchFolder folder;
    const auto absent = read_file(folder / "absent");
    ASSERT_FALSE(absent.ok());
    EXPECT_EQ(absent.error().message, "Cannot read '" + folder / "absent" + "': No such file or directory.");
    EXPECT_EQ(absent.error().next, "Check the path; it is taken relative to the current folder.");
    EXPECT_EQ(read_file(folder.path().string()).error().message,
              "Cannot read '" + folder.path().string() + "': it is a folder.");
    EXPECT_EQ(write_file(folder / "no/where", "x").error().message,
              "Cannot write '" + folder / "no/where" + "': No such file or directory.");
    ASSERT_TRUE(write_file(folder / "x", "12345").ok());
    EXPECT_EQ(read_file(folder / "x", 4).error().message,
              "Cannot read '" + folder / "x" + "': it has 5 bytes, and the limit here is 4.");
}

TEST(IoFile, FindsTheExtension) {
    EXPECT_EQ(extension("a/b.PNG"), ".png");
    EXPECT_EQ(extension("a.b/c"), "");
    EXPECT_EQ(extension("x"), "");
}

}  // namespace
}  // namespace opwright::io
