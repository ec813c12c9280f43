// Declares an operator, looks at what is derived from it, compiles it and runs it; then, with a path, runs a model on
// zeros:   example [MODEL.onnx]
#include <algorithm>
#include <cstdio>
#include <opwright/opwright.hpp>

namespace {

const char* kDeclaration = R"(op matmul_prelu(x[m,k], w[n,k], a[n]) -> y[m,n]:
    "Linear layer without bias, then PReLU with one slope a column."
    z[m,n] = sum[k](x[m,k] * w[n,k])
    y[m,n] = select(z[m,n] >= 0, z[m,n], a[n] * z[m,n])
)";

void run_operator() {
    const opwright::Library library(kDeclaration, "matmul_prelu.op");
    std::printf("declared: %s\n", library.operators().front().c_str());
    std::printf("derived: %zu bytes of JSON\n", library.explain("matmul_prelu").size());
    opwright::Operator op(library, "matmul_prelu");
    const auto x = opwright::Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
    const auto w = opwright::Tensor::of<float>({2, 3}, {1, 0, 0, 0, -1, 0});
    const auto a = opwright::Tensor::of<float>({2}, {0.5f, 0.25f});
    const opwright::Tensor y = op.run({{"x", x}, {"w", w}, {"a", a}}).at(0);
    const float* v = y.data<float>();
    std::printf("y = [[%g, %g], [%g, %g]]\n", v[0], v[1], v[2], v[3]);
}

void run_model(const char* path) {
    opwright::Model model(path);
    std::vector<opwright::Tensor> zeros;
    opwright::Inputs inputs;
    const auto declared = model.inputs();
    zeros.reserve(declared.size());
    for (const opwright::Value& v : declared) {
        std::vector<int64_t> shape = v.shape;
        std::replace(shape.begin(), shape.end(), int64_t{-1}, int64_t{1});  // symbolic extents: 1
        zeros.emplace_back(v.dtype, shape);
        inputs.emplace_back(v.name, zeros.back());
    }
    const auto outputs = model.run(inputs);
    for (size_t i = 0; i < outputs.size(); ++i)
        std::printf("%s: %lld elements\n", model.outputs()[i].name.c_str(), static_cast<long long>(outputs[i].size()));
}

}  // namespace

int main(int argc, char** argv) {
    try {
        std::printf("Opwright %s\n", opwright::version().c_str());
        run_operator();
        if (argc > 1) run_model(argv[1]);
    } catch (const opwright::Error& error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
}
