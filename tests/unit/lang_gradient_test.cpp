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
// What `opwright verify` makes of an operator `f` with the gradient `back`.
std::optional<verify::GradientCheck> checked(const std::string& text) {
    Library library;
    EXPECT_TRUE(library.add(std::make_shared<const Source>(Source{"f.op", text})).ok());
    auto r = verify::check_given_gradient(library, "f");
    EXPECT_TRUE(r.ok()) << render(r.error());
    return r.ok() ? *r : std::nullopt;
}
std::string cube(const std::string& gradient) {
    return "op back(x[n], dy[n]) -> dx[n] where T in float:\n    dx[n] = " + gradient +
           "\nop f(x[n]) -> y[n] where T in float:\n    y[n] = x[n] * x[n] * x[n]\n    gradient back\n"
           "    example x = f32[4]\n";
}
std::string relu(const std::string& gradient) {
    return "op back(x[n], dy[n]) -> dx[n] where T in float:\n    dx[n] = " + gradient +
           "\nop f(x[n]) -> y[n] where T in float:\n    y[n] = max(x[n], 0)\n    gradient back\n    example x = f32[4]\n";
}

TEST(GivenGradient, PassesVerification) {
    const auto r = checked(cube("3 * x[n] * x[n] * dy[n]"));
    ASSERT_TRUE(r);
    EXPECT_TRUE(r->passed()) << r->str();
    EXPECT_GT(r->cases, 20);
    EXPECT_GT(r->quotients, 4);
    EXPECT_EQ(r->kinks, 0);
}
TEST(GivenGradient, IsFoundWrongByBothMeans) {
    const auto r = checked(cube("3 * x[n] * x[n] * dy[n] + select(x[n] > 2.0, 0.01, 0.0)"));
    ASSERT_TRUE(r);
    EXPECT_FALSE(r->passed());
    EXPECT_NE(r->str().find("`back` says dx["), std::string::npos) << r->str();
    EXPECT_NE(r->str().find("and the difference quotient is "), std::string::npos) << r->str();
    EXPECT_NE(r->str().find(": `back` is wrong (for x = f64["), std::string::npos) << r->str();
}
TEST(GivenGradient, MayTakeAnotherSubgradientAtAKink) {
    const auto r = checked(relu("select(x[n] > 0, dy[n], select(x[n] == 0, 0.5 * dy[n], 0))"));
    ASSERT_TRUE(r);
    EXPECT_TRUE(r->passed()) << r->str();
    EXPECT_GT(r->kinks, 0);
    EXPECT_NE(r->str().find("another subgradient at a kink, which is legal: `back` says dx["), std::string::npos)
        << r->str();
}
TEST(GivenGradient, IsWrongBeyondTheSubgradientsOfAKink) {
    const auto r = checked(relu("select(x[n] > 0, dy[n], select(x[n] == 0, 2.0 * dy[n], 0))"));
    ASSERT_TRUE(r);
    EXPECT_FALSE(r->passed());
    EXPECT_NE(r->str().find("at a kink whose one-sided slopes differ by "), std::string::npos) << r->str();
}
TEST(GivenGradient, IsNoneWhereNoneIsNamed) {
    const auto p = Library::standard().elaborate_symbolic("softmax");
    ASSERT_TRUE(p.ok());
    const auto given = given_gradient(Library::standard(), "softmax", *p, {});
    ASSERT_TRUE(given.ok());
    EXPECT_FALSE(given->has_value());
    const auto check = verify::check_given_gradient(Library::standard(), "softmax");
    ASSERT_TRUE(check.ok());
    EXPECT_FALSE(check->has_value());
}

}  // namespace
}  // namespace opwright::lang
