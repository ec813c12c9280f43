// Every message of the language with its exact text: tests/error/NAME.op must give tests/error/NAME.txt. Run with
// OPWRIGHT_UPDATE_GOLDEN=1 to write the texts anew, and read the difference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lang/check.h"

namespace opwright::lang {
namespace {
namespace fs = std::filesystem;

std::string read(const fs::path& p) {
    std::ifstream f(p, std::ios::binary);
    std::stringstream s;
    s << f.rdbuf();
    return s.str();
}

TEST(LangError, EveryMessageHasItsText) {
    const fs::path folder = fs::path(OPWRIGHT_SOURCE_DIR) / "tests" / "error";
    const bool update = std::getenv("OPWRIGHT_UPDATE_GOLDEN") != nullptr;
    std::vector<fs::path> files;
    for (const auto& f : fs::directory_iterator(folder))
        if (f.path().extension() == ".op") files.push_back(f.path());
    std::sort(files.begin(), files.end());
    ASSERT_GT(files.size(), 100u);
    for (const fs::path& f : files) {
        const auto source = std::make_shared<const Source>(Source{f.filename().string(), read(f)});
        std::string text;
        for (const Diagnostic& d : check(source)) text += (text.empty() ? "" : "\n\n") + render(d);
        text += "\n";
        EXPECT_NE(text, "\n") << f.filename() << " is accepted";
        const fs::path golden = fs::path(f).replace_extension(".txt");
        if (update)
            std::ofstream(golden, std::ios::binary) << text;
        else
            EXPECT_EQ(text, read(golden)) << f.filename();
    }
}

}  // namespace
}  // namespace opwright::lang
