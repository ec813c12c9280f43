#include "io/tensors.h"

#include <gtest/gtest.h>

#include "io/file.h"
#include "io_test_util.h"

namespace opwright::io {
namespace {

Tensor bytes_2x2() {
    Tensor t(DType::U8, {2, 2, 1});
    for (int64_t i = 0; i < 4; ++i) t.set_int(i, 60 * i);
    return t;
}

TEST(IoTensors, EveryKindKeepsTheTensor) {
    const ScratchFolder folder;
    for (const char* name : {"t.npy", "t.npz", "t.pb", "t.PNG"}) {
        const std::string path = folder / name;
        ASSERT_TRUE(write_tensors(path, {{"t", bytes_2x2()}}).ok()) << name;
        const auto r = read_tensors(path);
        ASSERT_TRUE(r.ok()) << r.error().message;
        ASSERT_EQ(r->size(), 1u);
        const bool named = extension(path) == ".npz" || extension(path) == ".pb";
        EXPECT_EQ((*r)[0].name, named ? "t" : "");
        EXPECT_EQ((*r)[0].tensor.shape(), (Shape{2, 2, 1}));
        for (int64_t i = 0; i < 4; ++i) EXPECT_EQ((*r)[0].tensor.get_int(i), 60 * i);
    }
}

TEST(IoTensors, NamesWhatIsWrong) {
    const ScratchFolder folder;
    EXPECT_EQ(read_tensors("t.txt").error().message,
              "Cannot read 't.txt': the ending of its name tells no kind of file.");
    EXPECT_EQ(write_tensors("t", {}).error().message,
              "Cannot write 't': the ending of its name tells no kind of file.");
    EXPECT_EQ(write_tensors("t.npy", {{"a", bytes_2x2()}, {"b", bytes_2x2()}}).error().message,
              "Cannot write 't.npy': there are 2 tensors, and a .npy file holds one.");
    const std::string path = folder / "t.pb";
    ASSERT_TRUE(write_file(path, "\xff\xff").ok());
    const auto r = read_tensors(path);
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().message, "These bytes are no ONNX tensor.");
    EXPECT_EQ(r.error().notes.at(0).text, "in the file '" + path + "'");
}

}  // namespace
}  // namespace opwright::io
