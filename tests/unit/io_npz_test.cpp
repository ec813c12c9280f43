#include "io/npz.h"

#include <gtest/gtest.h>

#include "io/file.h"
#include "io_test_util.h"

namespace opwright::io {
namespace {

// numpy.savez(f, a=numpy.array([1.5, -2], numpy.float32)): stored, with a zip64 extra field.
constexpr std::string_view kStored =
    "504b03042d000000000000002100d6434b05ffffffffffffffff05001400612e6e7079010010008800000000000000880000000000000093"
    "4e554d5059010076007b276465736372273a20273c6634272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065"
    "273a2028322c292c207d20202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020"
    "20202020202020202020202020200a0000c03f000000c0504b01022d032d000000000000002100d6434b0588000000880000000500000000"
    "00000000000000800100000000612e6e7079504b0506000000000100010033000000bf0000000000";
// numpy.savez_compressed(f, a=numpy.arange(4, dtype=numpy.int8))
constexpr std::string_view kDeflated =
    "504b03042d00000008000000210037bc66ffffffffffffffffff05001400612e6e707901001000840000000000000048000000000000009b"
    "ec17ea1b10c9c850c650ad9e925a9c5ca46ea5a05e9369a8aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91a"
    "263a9a3a0ab50a14002e0646266600504b01022d032d00000008000000210037bc66ff480000008400000005000000000000000000000080"
    "0100000000612e6e7079504b05060000000001000100330000007f0000000000";

class IoNpz : public testing::Test {
protected:
    Result<std::vector<NamedTensor>> read(const std::string& bytes) { return parse_npz(bytes, path_); }
    ScratchFolder folder_;
    std::string path_ = folder_ / "t.npz";
};

TEST_F(IoNpz, ReadsWhatNumpyWrites) {
    const auto stored = read(from_hex(kStored));
    ASSERT_TRUE(stored.ok()) << stored.error().message;
    ASSERT_EQ(stored->size(), 1u);
    EXPECT_EQ((*stored)[0].name, "a");
    EXPECT_EQ((*stored)[0].tensor.dtype(), DType::F32);
    EXPECT_EQ((*stored)[0].tensor.get(1), -2);
    const auto deflated = read(from_hex(kDeflated));
    ASSERT_TRUE(deflated.ok()) << deflated.error().message;
    EXPECT_EQ((*deflated)[0].tensor.shape(), Shape{4});
    EXPECT_EQ((*deflated)[0].tensor.get_int(3), 3);
}

TEST_F(IoNpz, KeepsNamesAndOrder) {
    Tensor a(DType::I64, {2, 2}), b(DType::BF16, {});
    for (int64_t i = 0; i < 4; ++i) a.set_int(i, -i);
    b.set(0, 0.5);
    ASSERT_TRUE(write_npz(path_, {{"z/first", a}, {"größe", b}}).ok());
    const auto r = read_npz(path_);
    ASSERT_TRUE(r.ok()) << r.error().message;
    ASSERT_EQ(r->size(), 2u);
    EXPECT_EQ((*r)[0].name, "z/first");
    EXPECT_EQ((*r)[0].tensor.get_int(3), -3);
    EXPECT_EQ((*r)[1].name, "größe");
    EXPECT_EQ((*r)[1].tensor.get(0), 0.5);
    const std::string once = *read_file(path_);
    ASSERT_TRUE(write_npz(path_, {{"z/first", a}, {"größe", b}}).ok());
    EXPECT_EQ(*read_file(path_), once);  // equal tensors, equal bytes
}

TEST_F(IoNpz, NamesWhatIsWrong) {
    const auto text = read("no archive at all");
    ASSERT_FALSE(text.ok());
    EXPECT_EQ(text.error().message, "'" + path_ + "' is not a readable .npz file: Not a zip archive.");
    std::string flipped = from_hex(kStored);
    flipped[180] ^= 1;  // a data byte: the checksum no longer fits
    EXPECT_EQ(read(flipped).error().message, "'" + path_ + ":a.npy' is not a readable .npz file: CRC error.");
    Tensor t(DType::U8, {1});
    t.set_int(0, 1);
    EXPECT_EQ(write_npz(path_, {{"a", t}, {"a", t}}).error().message,
              "Cannot write tensor 'a' to '" + path_ + "': File already exists.");
    EXPECT_EQ(write_npz(path_, {}).error().message, "Cannot write '" + path_ + "': there is no tensor to put into it.");
}

TEST_F(IoNpz, RefusesImpossibleSizes) {
    std::string bytes = from_hex(kDeflated);
    const size_t directory = bytes.find("PK\1\2");
    for (int i = 0; i < 3; ++i)
        bytes[directory + 24 + static_cast<size_t>(i)] = '\xff';  // uncompressed size: 16 MB out of 72 bytes
    const auto r = read(bytes);
    ASSERT_FALSE(r.ok());
}

TEST_F(IoNpz, SurvivesDamage) {
    for (std::string_view hex : {kStored, kDeflated}) {
        const std::string good = from_hex(hex);
        for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(read(good.substr(0, n)).ok()) << n;
        for (size_t i = 0; i < good.size(); ++i) {
            std::string bad = good;
            bad[i] ^= 0x55;
            const auto r = read(bad);
            if (r.ok())
                for (const NamedTensor& t : *r) { EXPECT_LE(t.tensor.bytes(), 8u); }
        }
    }
}

}  // namespace
}  // namespace opwright::io
