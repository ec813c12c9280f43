#include "io/picture.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "io/file.h"
#include "io_test_util.h"

namespace opwright::io {
namespace {

// Written by Pillow: numpy.arange(12) * 20 as 2x2 RGB, the same with a palette, 1-bit, 16-bit grey, and JPEGs.
constexpr std::string_view kRgb =
    "89504e470d0a1a0a0000000d4948445200000002000000020802000000fdd49a730000001649444154789c636410d1b0b1b161a8e859b0e5c4"
    "1d0015ac04"
    "eebba8f9ce0000000049454e44ae426082";
constexpr std::string_view kPalette =
    "89504e470d0a1a0a0000000d49484452000000020000000202030000000fd8e5b70000000c504c5445b4c8dc788ca03c5064001428f0f6c22f"
    "0000000c49"
    "444154789c6378c0e0000002e40121e2cadce00000000049454e44ae426082";
constexpr std::string_view kBits =
    "89504e470d0a1a0a0000000d49484452000000020000000201000000005acd30890000000c49444154789c6370607200000108008318868bce"
    "0000000049"
    "454e44ae426082";
constexpr std::string_view kGrey16 =
    "89504e470d0a1a0a0000000d4948445200000002000000021000000000074d8ebb0000001249444154789c636060f8ff9f2125859d1d000fce"
    "02d58cfc18"
    "cb0000000049454e44ae426082";
constexpr std::string_view kJpeg =
    "ffd8ffe000104a46494600010100000100010000ffdb0043000302020302020303030304030304050805050404050a070706080c0a0c0c0b0a"
    "0b0b0d0e12"
    "100d0e110e0b0b1016101113141515150c0f171816141812141514ffc0000b080008000801011100ffc4001400010000000000000000000000"
    "0000000007"
    "ffc40014100100000000000000000000000000000000ffda0008010100003f00347fffd9";
constexpr std::string_view kCmyk =
    "ffd8ffee000e41646f626500640000000000ffdb004300100b0c0e0c0a100e0d0e1211101318281a181616183123251d283a333d3c39333837"
    "40485c4e40"
    "4457453738506d51575f626768673e4d71797064785c656763ffc000140800080008044311004d11005911004b1100ffc40014000100000000"
    "0000000000"
    "00000000000004ffc40014100100000000000000000000000000000000ffda000e0443004d0059004b00003f0071c71cffd9";

std::string fault(std::string_view bytes) {
    const auto r = parse_picture(bytes, "p");
    return r.ok() ? "accepted" : r.error().message;
}

Tensor gradient(int64_t h, int64_t w, int64_t c) {
    Tensor t(DType::U8, {h, w, c});
    for (int64_t i = 0; i < t.size(); ++i) t.as<uint8_t>()[i] = static_cast<uint8_t>(i * 7 % 251);
    return t;
}

TEST(IoPicture, ReadsEveryKindOfPng) {
    for (std::string_view hex : {kRgb, kPalette}) {
        const auto r = parse_picture(from_hex(hex), "p");
        ASSERT_TRUE(r.ok()) << r.error().message;
        ASSERT_EQ(r->shape(), (Shape{2, 2, 3}));
        for (int i = 0; i < 12; ++i) EXPECT_EQ(r->get_int(i), 20 * i);
    }
    const auto bits = parse_picture(from_hex(kBits), "p");
    ASSERT_TRUE(bits.ok());
    EXPECT_EQ(bits->shape(), (Shape{2, 2, 1}));
    for (int i = 0; i < 4; ++i) EXPECT_EQ(bits->get_int(i), i == 1 || i == 2 ? 255 : 0);
    const auto grey = parse_picture(from_hex(kGrey16), "p");
    ASSERT_TRUE(grey.ok());
    const int expected[] = {0, 255, 100, 7};
    for (int i = 0; i < 4; ++i) EXPECT_EQ(grey->get_int(i), expected[i]);
}

TEST(IoPicture, ReadsJpeg) {
    const auto r = parse_picture(from_hex(kJpeg), "p");
    ASSERT_TRUE(r.ok()) << r.error().message;
    ASSERT_EQ(r->shape(), (Shape{8, 8, 1}));
    for (int i = 0; i < 64; ++i) EXPECT_EQ(r->get_int(i), 100);
}

TEST(IoPicture, PngKeepsEverySample) {
    const ScratchFolder folder;
    const std::string path = folder / "p.png";
    for (int64_t channels = 1; channels <= 4; ++channels) {
        const Tensor t = gradient(5, 7, channels);
        ASSERT_TRUE(write_picture(path, t).ok());
        const auto r = read_picture(path);
        ASSERT_TRUE(r.ok()) << r.error().message;
        ASSERT_EQ(r->shape(), t.shape());
        for (int64_t i = 0; i < t.size(); ++i) ASSERT_EQ(r->get_int(i), t.get_int(i));
    }
    Tensor mask(DType::Bool, {1, 2});
    mask.set_int(0, 1);
    mask.set_int(1, 0);
    ASSERT_TRUE(write_picture(path, mask).ok());
    const auto r = read_picture(path);
    ASSERT_TRUE(r.ok());
    EXPECT_EQ(r->get_int(0), 255);
    EXPECT_EQ(r->get_int(1), 0);
}

TEST(IoPicture, JpegStaysClose) {
    const ScratchFolder folder;
    for (const char* name : {"p.jpg", "p.JPEG"}) {
        Tensor t(DType::U8, {32, 48, 3});
        for (int64_t i = 0; i < t.size(); ++i)
            t.as<uint8_t>()[i] = static_cast<uint8_t>(60 + i / 144 * 2 + i % 144 / 3);
        ASSERT_TRUE(write_picture(folder / name, t).ok());
        const auto r = read_picture(folder / name);
        ASSERT_TRUE(r.ok()) << r.error().message;
        ASSERT_EQ(r->shape(), t.shape());
        for (int64_t i = 0; i < t.size(); ++i) ASSERT_LE(std::abs(r->get_int(i) - t.get_int(i)), 6);
    }
}

TEST(IoPicture, NamesWhatIsWrong) {
    EXPECT_EQ(fault("GIF89a"), "'p' is not a readable picture: it is neither PNG nor JPEG.");
    EXPECT_EQ(fault(from_hex(kCmyk)),
              "'p' is not a readable picture: its colours are CMYK, and grey and RGB are read.");
    EXPECT_EQ(fault(from_hex(kRgb).substr(0, 40)), "'p' is not a readable picture: the file ends too early.");
    EXPECT_EQ(fault(from_hex(kJpeg).substr(0, 120)), "'p' is not a readable picture: Premature end of JPEG file.");
    EXPECT_EQ(write_picture("p.gif", gradient(1, 1, 1)).error().message,
              "Cannot write 'p.gif': a picture's name ends in .png, .jpg or .jpeg.");
    EXPECT_EQ(write_picture("p.png", Tensor(DType::F32, {2, 2})).error().message,
              "Cannot write 'p.png': a tensor [2, 2] of f32 is no picture.");
    EXPECT_EQ(write_picture("p.jpg", gradient(1, 1, 4)).error().message,
              "Cannot write 'p.jpg': JPEG has no alpha, and the tensor has 4 channels.");
    EXPECT_EQ(write_picture("p.png", Tensor(DType::U8, {0, 3})).error().message,
              "Cannot write 'p.png': a PNG picture has 1 to 2147483647 pixels a side, and the tensor is [0, 3].");
}

TEST(IoPicture, RefusesImpossibleSizes) {
    // A JPEG header that claims 60000x4000 pixels, with the data of 8x8.
    std::string jpeg = from_hex(kJpeg);
    const size_t frame = jpeg.find("\xff\xc0");
    jpeg[frame + 5] = '\xea', jpeg[frame + 6] = '\x60';
    jpeg[frame + 7] = '\x0f', jpeg[frame + 8] = '\xa0';
    EXPECT_EQ(fault(jpeg),
              "'p' is not a readable picture: it claims 4000x60000 pixels, more than its 160 bytes can hold.");
}

TEST(IoPicture, SurvivesDamage) {
    for (std::string_view hex : {kRgb, kPalette, kBits, kGrey16, kJpeg, kCmyk}) {
        const std::string good = from_hex(hex);
        for (size_t n = 0; n + 1 < good.size(); ++n) (void)parse_picture(std::string_view(good).substr(0, n), "p");
        for (size_t i = 0; i < good.size(); ++i)
            for (int flip : {0x01, 0x80, 0xff}) {
                std::string bad = good;
                bad[i] = static_cast<char>(bad[i] ^ flip);
                const auto r = parse_picture(bad, "p");
                if (r.ok()) { EXPECT_GT(r->size(), 0); }
            }
    }
}

}  // namespace
}  // namespace opwright::io
