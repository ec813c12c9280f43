// Private to random_model*.cpp: the operators, and groups of them, that a random model is made of. Each returns false where
// no value is there that it applies to.
#pragma once
#include "verify/random_model_builder.h"

namespace opwright::verify::models {

class Maker : public Builder {
public:
    using Builder::Builder;
    void make();

private:
    void inputs();
    Extent extent();

    // random_model_maps.cpp: element by element, folds, and what only moves elements.
    bool unary();
    bool guarded_unary();
    bool binary();
    bool with_constant();
    bool where();
    bool cast();
    bool integer();
    bool reduce();
    bool arg();
    bool running();
    bool transpose();
    bool reshape();
    bool unit_dims();
    bool expand();
    bool concat();
    bool split();
    bool slice();
    bool pad();
    bool gather();
    bool rearrange();

    // random_model_blocks.cpp: products, windows, norms, and groups as exporters write them.
    bool linear();
    bool product();
    bool einsum();
    bool softmax();
    bool softmax_twice();
    bool norm();
    bool norm_by_parts();
    bool activation_by_parts();
    bool softmax_by_parts();
    bool attention();
    bool conv();
    bool bottleneck();
    bool conv_of_rows();
    bool pool();
    bool batch_norm();
    bool resize();

    V add(const std::string& type, V a, V b);  // broadcast, which must be possible
    V scaled(V x, double by);
    V shifted(V x, double by);
    V reduced(const std::string& type, V x, std::vector<int64_t> axes, bool keep, Kind kind = Kind::Rounds);
    V permuted(V x, const std::vector<int64_t>& order);
    V conv_of(V x, int64_t out, int64_t k, int64_t groups);  // same points
    V linear_of(V x, int64_t width);
    std::vector<int64_t> some_axes(size_t rank);
    int64_t maybe_negative(size_t axis, size_t rank);
};

}  // namespace opwright::verify::models
