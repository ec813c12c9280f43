// Other people's kernels: the right ones pass, each fault is found and named, and none takes the verifier along.
#include "verify/foreign.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "target/host_compiler.h"
#include "verify/child.h"
#include "verify/finding.h"

namespace opwright::verify {
namespace {
namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;

const std::string kExamples = std::string(OPWRIGHT_SOURCE_DIR) + "/examples/verify/";

std::string file_text(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
}
std::shared_ptr<lang::Library> softmax_library() {
    auto l = std::make_shared<lang::Library>();
    EXPECT_TRUE(l->add(std::make_shared<const Source>(Source{"softmax.op", file_text(kExamples + "softmax.op")})).ok());
    return l;
}
OperatorOptions quick() {
    OperatorOptions o;
    o.types.clear();
    o.check.sizes.count = 12;
    o.check.sizes.max_work = 1 << 13;
    return o;
}
// Python with NumPy, or nothing.
bool has_numpy() {
    const char* own = std::getenv("OPWRIGHT_PYTHON");
    const std::string venv = std::string(OPWRIGHT_SOURCE_DIR) + "/.venv/bin/python";
    if (!own && fs::exists(venv)) setenv("OPWRIGHT_PYTHON", venv.c_str(), 1);
    const char* python = std::getenv("OPWRIGHT_PYTHON");
    return std::system(((python ? python : std::string("python3")) + " -c 'import numpy' 2>/dev/null").c_str()) == 0;
}

class ForeignPython : public testing::Test {
protected:
    void SetUp() override {
        if (!has_numpy()) GTEST_SKIP() << "there is no Python with NumPy";
    }
    static Report check(const std::string& function, ForeignOptions o = {}) {
        const auto library = softmax_library();
        const auto f = python_function({kExamples + "softmax_numpy.py", function, true}, o);
        EXPECT_TRUE(f.ok()) << (f.ok() ? "" : f.error().message);
        return check_operator(*library, "row_softmax", f->subject, quick());
    }
    static Report of(const std::string& body) {
        const fs::path path = fs::temp_directory_path() / fmt_name();
        std::ofstream(path) << body;
        const auto library = softmax_library();
        const auto f = python_function({path.string(), "f", true}, {.seconds = 2});
        EXPECT_TRUE(f.ok()) << (f.ok() ? "" : f.error().message);
        const Report r = check_operator(*library, "row_softmax", f->subject, quick());
        fs::remove(path);
        return r;
    }
    static std::string fmt_name() { return "opwright_foreign_" + std::to_string(getpid()) + ".py"; }
};

TEST_F(ForeignPython, TheRightOnePassesInEveryLayout) {
    const Report r = check("softmax");
    EXPECT_TRUE(r.passed()) << r.str();
    EXPECT_EQ(r.layouts.size(), all_layouts().size());
}
TEST_F(ForeignPython, EachPlantedFaultIsFoundAndNamed) {
    const auto finding = [](const char* function) { return investigate(*check(function).failure, nullptr); };
    const Finding unmasked = finding("softmax_unmasked");
    EXPECT_THAT(unmasked.evidence, Contains(HasSubstr("reads outside x")));
    const Finding dense = finding("softmax_dense");
    EXPECT_NE(layouts_text(*dense.failure.program, dense.failure.c), "");
    EXPECT_THAT(dense.evidence, Contains(HasSubstr("strides of x are not followed")));
    const Finding half = finding("softmax_half");
    EXPECT_THAT(half.evidence, Contains(HasSubstr("arithmetic in f16")));
    EXPECT_EQ(check("softmax_in_place").smallest_failure->outcome, Outcome::ChangedInput);
    EXPECT_FALSE(check("softmax_overflows").passed());
}
TEST_F(ForeignPython, WhatGoesWrongInTheProcessIsAFinding) {
    const Report crash = of(
        "import numpy, os, signal\ndef f(x):\n    if x.size > 20: os.kill(os.getpid(), signal.SIGSEGV)\n"
        "    e = numpy.exp(x - x.max(1, keepdims=True, initial=-numpy.inf))\n    return e / e.sum(1, keepdims=True)\n");
    EXPECT_THAT(crash.smallest_failure->message, HasSubstr("was ended by signal 11"));
    EXPECT_EQ(crash.smallest_failure->outcome, Outcome::Crashed);
    EXPECT_GT(crash.smallest_failure->elements, 40);
    EXPECT_TRUE(crash.verdicts.count(Verdict::WithinTolerance));  // the process was started again
    const Report raises = of("def f(x):\n    raise ValueError('no such row')\n");
    EXPECT_THAT(raises.smallest_failure->message, HasSubstr("it raised ValueError: no such row (line 2: raise"));
    const Report wrong_type = of("def f(x):\n    return x.astype('float64')\n");
    EXPECT_THAT(wrong_type.smallest_failure->message, HasSubstr("it returned float64["));
    const Report too_many = of("def f(x):\n    return x.copy(), x.copy()\n");
    EXPECT_THAT(too_many.smallest_failure->message, HasSubstr("2 results, where 1 are declared"));
    const Report view = of("def f(x):\n    return x\n");
    EXPECT_THAT(view.remarks, Contains(HasSubstr("y shares memory with x")));
}
TEST_F(ForeignPython, AnEndlessLoopIsEnded) {
    auto child = Child::start({"sh", "-c", "sleep 100"}, {});
    ASSERT_TRUE(child.ok());
    const auto r = (*child)->ask("x", 0.2);
    ASSERT_FALSE(r.ok());
    EXPECT_THAT(r.error().message, HasSubstr("gave no answer within 0.2 s"));
    EXPECT_THAT((*child)->ask("x", 0.2).error().message, HasSubstr("had ended before"));
}
TEST_F(ForeignPython, WhatIsMissingIsNamed) {
    const auto error = [](const std::string& body, const std::string& function) {
        const fs::path path = fs::temp_directory_path() / fmt_name();
        std::ofstream(path) << body;
        const auto f = python_function({path.string(), function, true}, {});
        fs::remove(path);
        return f.ok() ? std::string("none") : f.error().message + " | " + f.error().next;
    };
    EXPECT_THAT(error("import nothing_of_the_kind\n", "f"),
                HasSubstr("needs the Python package 'nothing_of_the_kind'"));
    EXPECT_THAT(error("import nothing_of_the_kind\n", "f"), HasSubstr("-m pip install nothing_of_the_kind"));
    EXPECT_THAT(error("def g(x): return x\n", "f"), HasSubstr("has no function 'f'; it has: g"));
    EXPECT_THAT(error("def f(x:\n", "f"), HasSubstr("can't be loaded: SyntaxError"));
    EXPECT_THAT(error("import os\nos._exit(3)\n", "f"), HasSubstr("exit code 3"));
}

class ForeignLibrary : public testing::Test {
protected:
    void SetUp() override {
        const std::string cc = target::host_compiler(false);
        if (cc.empty()) GTEST_SKIP() << "there is no C compiler";
        path_ = (fs::temp_directory_path() / ("opwright_softmax_" + std::to_string(getpid()) + ".so")).string();
        const std::string command = cc + " -shared -fPIC -O1 -w -o " + path_ + " " + kExamples + "row_softmax.c -lm";
        ASSERT_EQ(std::system(command.c_str()), 0);
    }
    void TearDown() override {
        std::error_code e;
        fs::remove(path_, e);
    }
    Report check(const std::string& symbol) const {
        const auto library = softmax_library();
        const auto f = c_function({path_, symbol}, *library, "row_softmax", {});
        EXPECT_TRUE(f.ok()) << (f.ok() ? "" : f.error().message);
        return check_operator(*library, "row_softmax", *f, quick());
    }
    std::string path_;
};

TEST_F(ForeignLibrary, TheRightOnePasses) {
    const Report r = check("row_softmax");
    EXPECT_TRUE(r.passed()) << r.str();
    EXPECT_GT(r.cases, 50);
}
TEST_F(ForeignLibrary, EachPlantedFaultIsFound) {
    const Report short_one = check("row_softmax_short");
    const Finding f = investigate(*short_one.failure, nullptr);
    EXPECT_EQ(f.failure.report.arguments, "x = f32[1,1]");
    EXPECT_THAT(f.evidence, Contains(HasSubstr("never written")));
    EXPECT_EQ(check("row_softmax_beyond").smallest_failure->outcome, Outcome::WroteOutside);
    const Report crash = check("row_softmax_crashes");
    EXPECT_EQ(crash.smallest_failure->outcome, Outcome::Crashed);
    EXPECT_THAT(crash.smallest_failure->message, HasSubstr("signal 11"));
    EXPECT_GT(crash.verdicts.size(), 0u);  // other cases ran
}
TEST_F(ForeignLibrary, WhatIsMissingIsNamed) {
    const auto library = softmax_library();
    const auto none = c_function({path_, "no_such_symbol"}, *library, "row_softmax", {});
    ASSERT_FALSE(none.ok());
    EXPECT_THAT(none.error().message, HasSubstr("has no symbol 'no_such_symbol'"));
    EXPECT_THAT(none.error().next, HasSubstr("int no_such_symbol(int64_t m, int64_t n, const float* x, float* y)"));
    const auto no_library = c_function({kExamples + "row_softmax.c", "row_softmax"}, *library, "row_softmax", {});
    ASSERT_FALSE(no_library.ok());
    EXPECT_THAT(no_library.error().message, HasSubstr("can't be loaded"));
}

TEST(VerifyAgainst, IsReadAndChecked) {
    const auto python = parse_against(kExamples + "softmax_numpy.py:softmax");
    ASSERT_TRUE(python.ok());
    EXPECT_TRUE(python->python);
    EXPECT_EQ(python->symbol, "softmax");
    for (const char* wrong : {"", "kernel.py", ":f", "kernel.py:", "kernel.txt:f", "/no/such/kernel.py:f"})
        EXPECT_FALSE(parse_against(wrong).ok()) << wrong;
}

}  // namespace
}  // namespace opwright::verify
