// Every declaration of the library: its description, its examples, its form for open extents, its reference.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "derive/reference.h"
#include "lang/library.h"

namespace opwright {
namespace {

class EveryOperator : public testing::TestWithParam<std::string> {
protected:
    const lang::Library& library = lang::Library::standard();
    const lang::OpDecl* declaration() const { return library.find(GetParam()); }
};

std::vector<std::string> all_names() { return lang::Library::standard().names(); }

Tensor filled(const lang::Argument& a, const std::optional<lang::ValueRange>& range, std::mt19937& random) {
    Shape s;
    for (const math::Sym& d : a.shape) s.push_back(d.constant().value());
    Tensor t(a.dtype, s);
    std::uniform_real_distribution<double> value(range ? range->low : a.dtype == DType::Bool || !is_float(a.dtype) ? 0 : -2, range ? range->high : 2);
    for (int64_t i = 0; i < t.size(); ++i) {
        const double v = value(random);
        t.set(i, is_float(a.dtype) ? v : std::floor(v));
    }
    return t;
}

TEST_P(EveryOperator, HasOneLineOfDescriptionAndAnExample) {
    const std::string& doc = library.doc(*declaration());
    EXPECT_FALSE(doc.empty());
    EXPECT_EQ(doc.find('\n'), std::string::npos);
    EXPECT_EQ(doc.back(), '.');
    const auto examples = library.examples(*declaration());
    ASSERT_TRUE(examples.ok()) << render(examples.error());
    EXPECT_FALSE(examples->empty());
}

TEST_P(EveryOperator, ElaboratesAndHasAReferenceForEachExample) {
    const auto examples = library.examples(*declaration());
    ASSERT_TRUE(examples.ok()) << render(examples.error());
    std::mt19937 random(7);
    for (const lang::Example& e : *examples) {
        const auto program = library.elaborate(GetParam(), e.arguments, e.attributes);
        ASSERT_TRUE(program.ok()) << render(program.error());
        EXPECT_EQ(math::verify(*program), std::vector<std::string>()) << program->print();
        std::vector<Tensor> inputs;
        for (size_t i = 0; i < e.arguments.size(); ++i)
            if (e.arguments[i].present) inputs.push_back(filled(e.arguments[i], i < e.values.size() ? e.values[i] : std::nullopt, random));
        const auto outputs = derive::reference(*program, inputs);
        ASSERT_TRUE(outputs.ok()) << render(outputs.error()) << "\n" << program->print();
        for (size_t i = 0; i < outputs->size(); ++i)
            EXPECT_EQ(static_cast<size_t>((*outputs)[i].value.rank()), program->tensors[program->outputs[i]].shape.size());
    }
}

TEST_P(EveryOperator, ElaboratesForOpenExtents) {
    for (int rank : {1, 2, 3}) {
        const auto program = library.elaborate_symbolic(GetParam(), rank);
        if (!program.ok()) continue;  // an example fixes the rank
        EXPECT_EQ(math::verify(*program), std::vector<std::string>()) << program->print();
    }
    const auto program = library.elaborate_symbolic(GetParam());
    EXPECT_TRUE(program.ok()) << render(program.error());
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryOperator, testing::ValuesIn(all_names()), [](const auto& i) { return i.param; });

}  // namespace
}  // namespace opwright
