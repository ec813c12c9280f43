// What the CUDA driver's errors tell a person to do.
#include <gtest/gtest.h>

#include <string>

#include "target/cuda/driver.h"

namespace opwright::target::cuda {
namespace {

TEST(CudaErrors, EachHasANextStep) {
    for (int code = 1; code < 1000; ++code) {
        const std::string next = next_step(code);
        ASSERT_FALSE(next.empty()) << code;
        EXPECT_TRUE(next.ends_with('.')) << code << ": " << next;
    }
    EXPECT_EQ(next_step(2),
              std::string("Free memory of the GPU (nvidia-smi shows who holds it), or use smaller tensors."));
    EXPECT_NE(std::string(next_step(700)).find("CUDA_LAUNCH_BLOCKING=1"), std::string::npos);
    EXPECT_NE(std::string(next_step(209)).find("update the driver"), std::string::npos);
}

}  // namespace
}  // namespace opwright::target::cuda
