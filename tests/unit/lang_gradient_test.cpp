// Gradients given by hand: matched by name, and against the derived ones.
#include <gtest/gtest.h>

#include "derive/gradient.h"
#include "lang/gradient.h"
#include "verify/hand_gradient.h"

namespace opwright::lang {
namespace {

// `gradient` is the body of the operator that is given as the gradient of scale * x * w.
Status compared(const std::string& gradient) {
    Library library;
    const std::string text = "op back(w[n], x[n], dy[n]; scale = 2.0) -> (dw[n], dx[n]) where T in float:\n" +
                             gradient +
                             "op f(x[n], w[n]; scale = 2.0) -> y[n] where T in float:\n"
                             "    y[n] = scale * x[n] * w[n]\n"
                             "    gradient back\n"
                             "    example x = f32[5], w = f32[5]\n";
    EXPECT_TRUE(library.add(std::make_shared<const Source>(Source{"f.op", text})).ok());
    const Attributes attributes{{"scale", 3.0}};
    const std::vector<math::Sym> n{math::Sym::symbol("n")};
    const auto p = library.elaborate("f", {{DType::F32, n}, {DType::F32, n}}, attributes);
    EXPECT_TRUE(p.ok()) << render(p.error());
    const auto given = given_gradient(library, "f", *p, attributes);
    EXPECT_TRUE(given.ok()) << render(given.error());
    EXPECT_TRUE(given->has_value());
    EXPECT_EQ((*given)->wrt, (std::vector<size_t>{1, 0}));
    const auto derived = derive::gradient(*p);
    EXPECT_TRUE(derived.ok());
    return verify::same_gradient(**given, *derived, *p, {{"n", 5}});
}

TEST(GivenGradient, AgreesWithTheDerivedOne) {
    const Status s = compared("    dw[n] = x[n] * (dy[n] * scale)\n    dx[n] = scale * dy[n] * w[n]\n");
    EXPECT_TRUE(s.ok()) << render(s.error());
}
TEST(GivenGradient, IsFoundWrong) {
    const Status s = compared("    dw[n] = x[n] * dy[n] * scale\n    dx[n] = 1.001 * scale * dy[n] * w[n]\n");
    ASSERT_FALSE(s.ok());
    EXPECT_NE(s.error().message.find("`back` says dx[0] = "), std::string::npos) << s.error().message;
}
TEST(GivenGradient, IsNoneWhereNoneIsNamed) {
    const auto p = Library::standard().elaborate_symbolic("softmax");
    ASSERT_TRUE(p.ok());
    const auto given = given_gradient(Library::standard(), "softmax", *p, {});
    ASSERT_TRUE(given.ok());
    EXPECT_FALSE(given->has_value());
}

}  // namespace
}  // namespace opwright::lang
