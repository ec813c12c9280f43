// Programs printed as declarations: gradients of every operator of the library are read back and mean the same.
#include "lang/declaration.h"

#include "derive/shape.h"
#include "gradient_test_util.h"
#include "lang/check.h"

namespace opwright {
namespace {
using namespace test;

class DeclarationOf : public testing::TestWithParam<std::string> {};

std::vector<std::string> all_names() { return lang::Library::standard().names(); }

void read_back(const math::Program& p, const std::vector<Tensor>& in) {
    std::vector<Shape> shapes;
    for (const Tensor& t : in) shapes.push_back(t.shape());
    const auto sizes = derive::bind_symbols(p, shapes);
    ASSERT_TRUE(sizes.ok()) << render(sizes.error()) << p.print();
    const auto text = lang::declaration(p, {{*sizes, {}}});
    ASSERT_TRUE(text.ok()) << render(text.error());
    const auto source = std::make_shared<const Source>(Source{"printed.op", *text});
    for (const Diagnostic& d : lang::check(source)) ADD_FAILURE() << render(d) << "\n" << *text;
    lang::Library library;
    ASSERT_TRUE(library.add(source).ok()) << *text;
    std::vector<lang::Argument> arguments;
    for (const Tensor& t : in) arguments.push_back({t.dtype(), {t.shape().begin(), t.shape().end()}});
    const auto again = library.elaborate(p.name, arguments, {});
    ASSERT_TRUE(again.ok()) << render(again.error()) << "\n" << *text;
    const auto a = derive::reference(p, in), b = derive::reference(*again, in);
    ASSERT_TRUE(a.ok()) << render(a.error());
    ASSERT_TRUE(b.ok()) << render(b.error()) << "\n" << *text;
    ASSERT_EQ(a->size(), b->size());
    for (size_t o = 0; o < a->size(); ++o) {
        ASSERT_EQ((*a)[o].value.shape(), (*b)[o].value.shape()) << *text;
        for (int64_t i = 0; i < (*a)[o].value.size(); ++i) {
            const double x = (*a)[o].value.get(i), y = (*b)[o].value.get(i);
            ASSERT_TRUE(x == y || (std::isnan(x) && std::isnan(y)) || std::fabs(x - y) <= 1e-12 * std::fabs(x))
                << x << " " << y << "\n"
                << *text;
        }
    }
}

TEST_P(DeclarationOf, ItselfItsGradientAndTangentReadBack) {
    const lang::Library& library = lang::Library::standard();
    const auto examples = library.examples(*library.find(GetParam()));
    auto p = library.elaborate_symbolic(GetParam());
    ASSERT_TRUE(examples.ok() && !examples->empty() && p.ok());
    std::mt19937_64 random(3);
    const lang::Example& e = examples->front();
    const std::vector<Tensor> in = example_inputs(e, e.arguments, random);
    std::vector<Shape> shapes;
    for (const Tensor& t : in) shapes.push_back(t.shape());
    if (!derive::bind_symbols(*p, shapes).ok())  // the example broadcasts, open extents do not
        p = library.elaborate(GetParam(), e.arguments, e.attributes);
    ASSERT_TRUE(p.ok()) << render(p.error());
    read_back(*p, in);
    const auto g = derive::gradient(*p);
    if (!g.ok()) return;
    const auto out = derive::reference(*p, in);
    ASSERT_TRUE(out.ok()) << render(out.error());
    std::vector<Tensor> cotangents;
    for (size_t o = 0; o < out->size(); ++o)
        cotangents.push_back(random_values(p->tensors[p->outputs[o]].dtype, (*out)[o].value.shape(), random, -1, 1));
    read_back(g->program, gradient_inputs(*g, in, cotangents));
    const auto t = derive::tangent(*p);
    ASSERT_TRUE(t.ok());
    std::vector<Tensor> forward;
    for (size_t i : t->inputs) forward.push_back(in[i]);
    for (size_t i : t->tangents) forward.push_back(random_values(in[i].dtype(), in[i].shape(), random, -1, 1));
    read_back(t->program, forward);
}

INSTANTIATE_TEST_SUITE_P(Library, DeclarationOf, testing::ValuesIn(all_names()), [](const auto& i) { return i.param; });

}  // namespace
}  // namespace opwright
