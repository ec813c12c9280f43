// The operators of ai.onnx.ml that compute with indices alone, and counts of n-grams.
#include <algorithm>

#include "graph/onnx/bindings/common.h"

namespace opwright::graph::onnx::bindings {
namespace {

using Out = Result<Values>;
constexpr const char* kDomain = "ai.onnx.ml";

Out binarizer(NodeContext& c) {
    return c.emit("binarise", {c.input(0)}, {{"level", c.float_attribute("threshold", 0)}});
}

Result<ValueId> row(NodeContext& c, const std::vector<double>& v, double otherwise, DType t) {
    Tensor out(t, {static_cast<int64_t>(std::max<size_t>(v.size(), 1))});
    if (v.empty()) out.set(0, otherwise);
    for (size_t i = 0; i < v.size(); ++i) out.set(static_cast<int64_t>(i), v[i]);
    return c.add_constant(std::move(out));
}

Out scaler(NodeContext& c) {
    OPW_TRY(ValueId x, converted(c, c.input(0), DType::F32));
    if (rank_of(c, x) != 2) return c.unsupported("the input must have two dims");
    OPW_TRY(ValueId offset, row(c, c.floats("offset").value_or(std::vector<double>{}), 0, DType::F32));
    OPW_TRY(ValueId factor, row(c, c.floats("scale").value_or(std::vector<double>{}), 1, DType::F32));
    return c.emit("shift_and_scale", {x, offset, factor});
}

Out normalizer(NodeContext& c) {
    OPW_TRY(ValueId x, converted(c, c.input(0), DType::F32));
    const Dims s = shape_of(c, x);
    if (s.size() > 2 || s.empty()) return c.unsupported("the input must have one or two dims");
    OPW_TRY(ValueId y, emit1(c, "normalise_rows", {with_rank(c, x, 2)}, {{"kind", c.string_attribute("norm", "MAX")}}));
    return Values{c.view(y, s)};
}

// Columns of the last dim.
Out feature_extractor(NodeContext& c) {
    const ValueId x = with_rank(c, c.input(0), 2);
    OPW_TRY(ValueId at, converted(c, c.input(1), DType::I64));
    at = c.view(at, {math::product(shape_of(c, at))});
    return c.emit("gather", {x, at}, {{"axis", rank_of(c, x) - 1}});
}

// x w' + b, the weights being one row a target.
Result<ValueId> linear(NodeContext& c, size_t rows) {
    OPW_TRY(ValueId x, converted(c, c.input(0), DType::F32));
    const std::vector<double> w = c.floats("coefficients").value_or(std::vector<double>{});
    const std::vector<double> b = c.floats("intercepts").value_or(std::vector<double>{});
    if (rows < 1 || w.empty() || w.size() % rows != 0 || (!b.empty() && b.size() != rows))
        return c.unsupported("the coefficients must be one row for each of the " + std::to_string(rows) +
                             " targets, and the intercepts one number");
    OPW_TRY(ValueId weights, row(c, w, 0, DType::F32));
    weights = c.view(weights, {Sym(static_cast<int64_t>(rows)), Sym(static_cast<int64_t>(w.size() / rows))});
    ValueId bias = kNone;
    if (!b.empty()) { OPW_TRY(bias, row(c, b, 0, DType::F32)); }
    return emit1(c, "linear", {with_rank(c, x, 2), weights, bias});
}
Result<ValueId> transformed(NodeContext& c, ValueId scores) {
    const std::string how = c.string_attribute("post_transform", "NONE");
    if (how == "NONE") return scores;
    if (how == "SOFTMAX") return emit1(c, "softmax", {scores}, {{"axes", Dims{1}}});
    if (how == "LOGISTIC") return emit1(c, "sigmoid", {scores});
    return c.unsupported("post_transform '" + how + "' is not declared");
}

Out linear_regressor(NodeContext& c) {
    OPW_TRY(ValueId y, linear(c, static_cast<size_t>(std::max<int64_t>(c.int_attribute("targets", 1), 0))));
    OPW_TRY(y, transformed(c, y));
    return Values{y};
}

Out linear_classifier(NodeContext& c) {
    const auto labels = c.ints("classlabels_ints");
    if (!labels || labels->empty()) return c.unsupported("class labels that are strings are no numbers");
    OPW_TRY(ValueId scores, linear(c, labels->size()));
    OPW_TRY(ValueId best, emit1(c, "arg_max", {scores}, {{"axis", 1}}));
    Tensor names(DType::I64, {static_cast<int64_t>(labels->size())});
    std::copy(labels->begin(), labels->end(), names.as<int64_t>());
    OPW_TRY(ValueId label, emit1(c, "gather", {c.add_constant(std::move(names)), best}, {{"axis", 0}}));
    OPW_TRY(scores, transformed(c, scores));
    return Values{label, scores};
}

Out imputer(NodeContext& c) {
    const ValueId x = c.input(0);
    const bool real = is_float(type_of(c, x));
    std::vector<double> by = c.floats("imputed_value_floats").value_or(std::vector<double>{});
    if (!real) {
        by.clear();
        for (int64_t v : c.ints("imputed_value_int64s").value_or(Ints{})) by.push_back(static_cast<double>(v));
    }
    if (by.empty()) return c.unsupported("the values to put in are missing");
    OPW_TRY(ValueId values, row(c, by, 0, type_of(c, x)));
    const double missing = real ? c.float_attribute("replaced_value_float", 0)
                                : static_cast<double>(c.int_attribute("replaced_value_int64", 0));
    return c.emit("replace_value", {x, values, scalar(c, missing, type_of(c, x))});
}

// The vocabulary is a list of all 1-grams, then all 2-grams, and so on; `ngram_counts` says where each length begins.
Out ngrams(NodeContext& c) {
    if (c.has("pool_strings")) return c.unsupported("a vocabulary of strings");
    const Ints pool = c.ints("pool_int64s").value_or(Ints{}), begins = c.ints("ngram_counts").value_or(Ints{});
    const Ints columns = c.ints("ngram_indexes").value_or(Ints{});
    const auto weights = c.floats("weights");
    const std::string mode = c.string_attribute("mode", "TF");
    if (mode != "TF" && mode != "IDF" && mode != "TFIDF") return c.unsupported("mode '" + mode + "' is unknown");
    const int64_t least = c.int_attribute("min_gram_length", 1), most = c.int_attribute("max_gram_length", 1);
    const int64_t skips = c.int_attribute("max_skip_count", 0);
    if (columns.empty() || skips < 0 || skips > 1 << 16 || (weights && weights->size() != columns.size()))
        return c.unsupported("ngram_indexes must name a column for each n-gram, and weights one number");
    const int64_t width = *std::max_element(columns.begin(), columns.end()) + 1;
    if (*std::min_element(columns.begin(), columns.end()) < 0 || width > 1 << 24)
        return c.unsupported("a column of ngram_indexes is out of range");
    OPW_TRY(ValueId x, converted(c, c.input(0), DType::I64));
    const int rank = rank_of(c, x);
    if (rank != 1 && rank != 2) return c.unsupported("the input must have one or two dims");
    x = with_rank(c, x, 2);
    ValueId y = kNone;
    size_t gram = 0;  // number of n-grams before those of this length
    for (size_t k = 0; k < begins.size(); ++k) {
        const int64_t n = static_cast<int64_t>(k) + 1, begin = begins[k];
        const int64_t end = k + 1 < begins.size() ? begins[k + 1] : static_cast<int64_t>(pool.size());
        if (begin < 0 || begin > end || end > static_cast<int64_t>(pool.size()) || (end - begin) % n != 0)
            return c.unsupported("ngram_counts must list where the n-grams of each length begin");
        const int64_t count = (end - begin) / n;
        if (gram + static_cast<size_t>(count) > columns.size()) return c.unsupported("ngram_indexes is too short");
        const size_t first = gram;
        gram += static_cast<size_t>(count);
        if (count == 0 || n < least || n > most) continue;
        Tensor grams(DType::I64, {count, n}), at(DType::I64, {count}), weight(DType::F32, {count});
        std::copy(pool.begin() + begin, pool.begin() + end, grams.as<int64_t>());
        for (int64_t i = 0; i < count; ++i) {
            at.set_int(i, columns[first + static_cast<size_t>(i)]);
            weight.set(i, weights ? (*weights)[first + static_cast<size_t>(i)] : 1);
        }
        const bool weighs = weights && mode != "TF";
        OPW_TRY(ValueId part,
                emit1(c, "ngram_counts",
                      {x, c.add_constant(std::move(grams)), c.add_constant(std::move(at)),
                       weighs ? c.add_constant(std::move(weight)) : kNone},
                      {{"skips", n == 1 ? int64_t{0} : skips}, {"width", width}, {"once", mode == "IDF"}}));
        if (y == kNone) {
            y = part;
        } else {
            OPW_TRY(y, emit1(c, "add", {y, part}));
        }
    }
    if (y == kNone) {
        OPW_TRY(y, emit1(c, "full", {scalar(c, 0, DType::F32)}, {{"shape", Dims{shape_of(c, x)[0], width}}}));
    }
    return Values{rank == 1 ? without_axes(c, y, {0}) : y};
}

}  // namespace

std::span<const Entry> classical() {
    static const Entry entries[] = {{"Binarizer", binarizer, kDomain},
                                    {"Scaler", scaler, kDomain},
                                    {"Normalizer", normalizer, kDomain},
                                    {"LinearRegressor", linear_regressor, kDomain},
                                    {"LinearClassifier", linear_classifier, kDomain},
                                    {"Imputer", imputer, kDomain},
                                    {"TfIdfVectorizer", ngrams},
                                    {"ArrayFeatureExtractor", feature_extractor, kDomain}};
    return entries;
}

}  // namespace opwright::graph::onnx::bindings
