// Names cut to a column.
#include <gtest/gtest.h>

#include "base/text.h"

namespace opwright {
namespace {
using namespace std::string_literals;

TEST(BaseText, PathsKeepWhatTellsThemApart) {
    EXPECT_EQ(cut_path("/conv1/Conv", 18), "/conv1/Conv");
    EXPECT_EQ(cut_path("/features/features.3/body/body.0/body.0.2/Clip", 24), "features.3/body.0.2/Clip");
    EXPECT_EQ(cut_path("/features/features.3/body/body.0/body.0.2/Clip", 18), "~s.3/body.0.2/Clip");
    EXPECT_EQ(cut_path("/layer1/layer10/conv1/Conv", 24), "layer1/layer10/conv1/Conv"s.replace(0, 2, "~")) << "another layer is no part of it";
    EXPECT_EQ(cut_path("a name without parts", 8), "~t parts");
    EXPECT_EQ(cut_path("größe/größe.1/länge/Mul", 10), "~länge/Mul");
    EXPECT_EQ(cut_path("//x//////////////////", 4), "x");
}

}  // namespace
}  // namespace opwright
