// The examples of docs/language.md: `op` blocks elaborate, `op error` blocks give the message of the block that
// follows.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "lang/check.h"

namespace opwright::lang {
namespace {

struct Block {
    std::string kind, text;
    size_t line = 0;
};

std::vector<Block> blocks_of(const std::string& path) {
    std::ifstream f(path);
    std::vector<Block> out;
    std::string line;
    bool inside = false;
    for (size_t n = 1; std::getline(f, line); ++n) {
        if (line.starts_with("```")) {
            if (!inside) out.push_back({line.substr(3), "", n});
            inside = !inside;
        } else if (inside) {
            out.back().text += line + "\n";
        }
    }
    return out;
}

TEST(LangDocs, ExamplesOfTheReference) {
    const auto blocks = blocks_of(std::string(OPWRIGHT_SOURCE_DIR) + "/docs/language.md");
    std::string all;  // later examples may call earlier operators
    int good = 0, bad = 0;
    for (size_t i = 0; i < blocks.size(); ++i) {
        const Block& b = blocks[i];
        if (b.kind == "op") {
            all += b.text + "\n";
            ++good;
        }
        if (b.kind != "op error") continue;
        ++bad;
        std::string text;
        for (const Diagnostic& d : check(std::make_shared<const Source>(Source{"language.md", b.text})))
            text += (text.empty() ? "" : "\n\n") + render(d);
        ASSERT_LT(i + 1, blocks.size());
        EXPECT_EQ(text + "\n", blocks[i + 1].text) << "line " << b.line;
    }
    for (const Diagnostic& d : check(std::make_shared<const Source>(Source{"language.md", all})))
        ADD_FAILURE() << render(d);
    EXPECT_GT(good, 15);
    EXPECT_GT(bad, 3);
}

}  // namespace
}  // namespace opwright::lang
