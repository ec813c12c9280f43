// The inputs that the fuzzers of tests/fuzz start from, and those that once made them fail, without a fuzzer.
#include <gtest/gtest.h>

#include <filesystem>

#include "io/file.h"

// Each defines LLVMFuzzerTestOneInput, under a name of its own here; a fault aborts.
#define LLVMFuzzerTestOneInput io_input
#include "../fuzz/io_fuzz.cpp"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput language_input
#include "../fuzz/language_fuzz.cpp"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput onnx_input
#include "../fuzz/onnx_fuzz.cpp"
#undef LLVMFuzzerTestOneInput

namespace {

void replay(const std::string& folder, size_t least, int (*input)(const uint8_t*, size_t)) {
    size_t files = 0;
    for (const auto& e :
         std::filesystem::directory_iterator(std::string(OPWRIGHT_SOURCE_DIR "/tests/fuzz/") + folder)) {
        const auto bytes = opwright::io::read_file(e.path().string());
        ASSERT_TRUE(bytes.ok()) << e.path();
        SCOPED_TRACE(e.path().string());
        EXPECT_EQ(input(reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()), 0);
        ++files;
    }
    EXPECT_GE(files, least);
}

TEST(FuzzCorpus, Files) { replay("io_corpus", 10, io_input); }
TEST(FuzzCorpus, Declarations) { replay("language_corpus", 40, language_input); }
TEST(FuzzCorpus, Models) { replay("onnx_corpus", 30, onnx_input); }

}  // namespace
