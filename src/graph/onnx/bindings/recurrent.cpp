// RNN, GRU and LSTM, written out step by step over a sequence of known length. The products with the input are one
// contraction for all steps.
#include <algorithm>

#include "graph/onnx/bindings/common.h"

namespace opwright::graph::onnx::bindings {
namespace {

using Out = Result<Values>;
constexpr int64_t kMostSteps = 2048;

struct Layer {
    int gates = 1;
    bool lstm = false, linear_before_reset = false;
    ValueId x = kNone, ends = kNone;  // x [steps, batch, input]
    Sym batch, hidden;
    int64_t steps = 0;
    double limit = 0;  // 0: gates are not held
};

// Activation functions of direction d with their parameters, as attributes f, g, o of a step.
Result<Attributes> activations(const NodeContext& c, const Layer& l, size_t d) {
    const std::vector<std::string> names = l.lstm         ? std::vector<std::string>{"f", "g", "o"}
                                           : l.gates == 3 ? std::vector<std::string>{"f", "g"}
                                                          : std::vector<std::string>{"f"};
    Attributes a;
    const auto given = c.strings("activations");
    if (!given || given->empty()) return a;
    if (given->size() < (d + 1) * names.size())
        return c.unsupported("activations must name " + std::to_string(names.size()) + " functions a direction");
    // Parameters are listed for those functions alone that take some.
    const std::vector<double> alphas = c.floats("activation_alpha").value_or(std::vector<double>{});
    const std::vector<double> betas = c.floats("activation_beta").value_or(std::vector<double>{});
    size_t next_alpha = 0, next_beta = 0;
    for (size_t i = 0; i < (d + 1) * names.size(); ++i) {
        std::string kind = (*given)[i];
        for (char& ch : kind) ch = static_cast<char>(std::tolower(static_cast<unsigned char>(ch)));
        struct Known {
            const char *lower, *name;
            int parameters;
            double alpha, beta;
        };
        static const Known known[] = {{"tanh", "Tanh", 0, 0, 0},
                                      {"sigmoid", "Sigmoid", 0, 0, 0},
                                      {"relu", "Relu", 0, 0, 0},
                                      {"affine", "Affine", 2, 1, 0},
                                      {"leakyrelu", "LeakyRelu", 1, 0.01, 0},
                                      {"thresholdedrelu", "ThresholdedRelu", 1, 1, 0},
                                      {"scaledtanh", "ScaledTanh", 2, 1, 1},
                                      {"hardsigmoid", "HardSigmoid", 2, 0.2, 0.5},
                                      {"elu", "Elu", 1, 1, 0},
                                      {"softsign", "Softsign", 0, 0, 0},
                                      {"softplus", "Softplus", 0, 0, 0}};
        const auto found =
            std::find_if(std::begin(known), std::end(known), [&](const Known& k) { return kind == k.lower; });
        if (found == std::end(known)) return c.unsupported("the activation '" + (*given)[i] + "' is unknown");
        double alpha = found->alpha, beta = found->beta;
        if (found->parameters >= 1 && next_alpha < alphas.size()) alpha = alphas[next_alpha++];
        if (found->parameters >= 2 && next_beta < betas.size()) beta = betas[next_beta++];
        if (i < d * names.size()) continue;
        const std::string& n = names[i - d * names.size()];
        a[n] = std::string(found->name);
        a[n + "_alpha"] = alpha;
        a[n + "_beta"] = beta;
    }
    return a;
}

struct Direction {
    Values rows;  // of Y, in order of time
    ValueId h = kNone, c = kNone;
};

Result<ValueId> of_direction(NodeContext& c, size_t input, size_t d) {
    const ValueId v = input_or_none(c, input);
    if (v == kNone) return v;
    OPW_TRY(ValueId p, part(c, v, 0, static_cast<int64_t>(d), 1));
    return without_axes(c, p, {0});
}

Result<ValueId> initial(NodeContext& c, const Layer& l, size_t input, size_t d, bool batch_first) {
    ValueId v = input_or_none(c, input);
    if (v == kNone) return emit1(c, "full", {scalar(c, 0, type_of(c, l.x))}, {{"shape", Dims{l.batch, l.hidden}}});
    if (rank_of(c, v) != 3) return c.unsupported("initial states must have three dims");
    if (batch_first) { OPW_TRY(v, transposed(c, v, {1, 0, 2})); }
    OPW_TRY(v, part(c, v, 0, static_cast<int64_t>(d), 1));
    return without_axes(c, v, {0});
}

Result<Direction> run(NodeContext& c, const Layer& l, size_t d, bool backward, bool batch_first) {
    const Sym n = l.hidden, g(l.gates);
    OPW_TRY(ValueId w, of_direction(c, 1, d));
    OPW_TRY(ValueId r, of_direction(c, 2, d));
    OPW_TRY(ValueId b, of_direction(c, 3, d));
    if (!math::product(shape_of(c, r)).known_equal(g * n * n))
        return c.unsupported("r must have the dims [directions, " + std::to_string(l.gates) + " * hidden, hidden]");
    r = l.gates == 1 ? r : c.view(r, {g, n, n});
    ValueId bias = kNone, late = kNone;  // late: the hidden gate's recurrent bias, which the reset gate multiplies
    if (b != kNone) {
        OPW_TRY(ValueId wb, part(c, b, 0, 0, g * n));
        OPW_TRY(ValueId rb, part(c, b, 0, g * n, g * n));
        if (l.linear_before_reset) {
            OPW_TRY(late, part(c, rb, 0, n * 2, n));
            OPW_TRY(ValueId early, part(c, rb, 0, 0, n * 2));
            Dims end = {n};
            OPW_TRY(rb, emit1(c, "pad", {early, kNone}, {{"begin", Dims{0}}, {"end", end}}));
        }
        OPW_TRY(bias, emit1(c, "add", {wb, rb}));
    } else if (l.linear_before_reset) {
        OPW_TRY(late, emit1(c, "full", {scalar(c, 0, type_of(c, l.x))}, {{"shape", Dims{n}}}));
    }
    ValueId x = l.x;
    const bool reversed = backward && l.ends != kNone;  // sequences of several lengths are turned round one by one
    if (reversed) { OPW_TRY(x, emit1(c, "reverse_sequence", {x, l.ends})); }
    OPW_TRY(ValueId zx, emit1(c, "linear", {x, w, bias}));
    OPW_TRY(Attributes a, activations(c, l, d));
    if (l.limit > 0) a["limit"] = l.limit;
    Direction out;
    OPW_TRY(out.h, initial(c, l, 5, d, batch_first));
    ValueId peep = kNone;
    if (l.lstm) {
        OPW_TRY(out.c, initial(c, l, 6, d, batch_first));
        OPW_TRY(peep, of_direction(c, 7, d));
        if (peep != kNone && !math::product(shape_of(c, peep)).known_equal(n * 3))
            return c.unsupported("p must have the dims [directions, 3 * hidden]");
        if (peep != kNone) peep = c.view(peep, {3, n});
        a["coupled"] = c.int_attribute("input_forget", 0) != 0;
    }
    for (int64_t i = 0; i < l.steps; ++i) {
        const int64_t t = backward && !reversed ? l.steps - 1 - i : i;
        OPW_TRY(ValueId z, part(c, zx, 0, t, 1));
        z = c.view(z, l.gates == 1 ? Dims{l.batch, n} : Dims{l.batch, g, n});
        if (l.ends != kNone) a["at"] = i;
        Values y;
        if (l.lstm) {
            OPW_TRY(y, c.emit("lstm_step", {z, out.h, out.c, r, peep, l.ends}, a));
            out.c = y[2];
        } else if (l.gates == 3) {
            OPW_TRY(y, c.emit("gru_step", {z, out.h, r, late, l.ends}, a));
        } else {
            OPW_TRY(y, c.emit("rnn_step", {z, out.h, r, l.ends}, a));
        }
        out.h = y[1];
        out.rows.push_back(y[0]);
    }
    if (backward && !reversed) std::reverse(out.rows.begin(), out.rows.end());
    if (reversed) {
        Values stacked;
        for (ValueId v : out.rows) stacked.push_back(with_axes(c, v, {0}));
        OPW_TRY(ValueId all, emit1(c, "concat", stacked, {{"axis", 0}}));
        OPW_TRY(all, emit1(c, "reverse_sequence", {all, l.ends}));
        out.rows.clear();
        for (int64_t i = 0; i < l.steps; ++i) {
            OPW_TRY(ValueId v, part(c, all, 0, i, 1));
            out.rows.push_back(without_axes(c, v, {0}));
        }
    }
    return out;
}

Out recurrent(NodeContext& c) {
    Layer l;
    const std::string& type = c.op_type();
    l.gates = type == "LSTM" ? 4 : type == "GRU" ? 3 : 1;
    l.lstm = type == "LSTM";
    l.linear_before_reset = type == "GRU" && c.int_attribute("linear_before_reset", 0) != 0;
    l.limit = c.float_attribute("clip", 0);
    const bool batch_first = c.int_attribute("layout", 0) != 0;
    l.x = c.input(0);
    if (rank_of(c, l.x) != 3 || rank_of(c, c.input(1)) != 3 || rank_of(c, c.input(2)) != 3)
        return c.unsupported("x, w and r must have three dims");
    if (batch_first) { OPW_TRY(l.x, transposed(c, l.x, {1, 0, 2})); }
    const Dims s = shape_of(c, l.x);
    const auto steps = s[0].constant();
    if (!steps || *steps > kMostSteps)
        return c.unsupported(
            "the layer is written out step by step, which needs a sequence of a known length of at most " +
            std::to_string(kMostSteps) + "; give the input a fixed shape");
    l.steps = *steps;
    l.batch = s[1];
    l.hidden = shape_of(c, c.input(2))[2];
    if (input_or_none(c, 4) != kNone) { OPW_TRY(l.ends, converted(c, c.input(4), DType::I64)); }
    const std::string direction = c.string_attribute("direction", "forward");
    if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
        return c.unsupported("direction '" + direction + "' is unknown");
    std::vector<Direction> runs;
    if (direction == "bidirectional" || direction == "forward") {
        OPW_TRY(Direction d, run(c, l, 0, false, batch_first));
        runs.push_back(std::move(d));
    }
    if (direction != "forward") {
        OPW_TRY(Direction d, run(c, l, runs.size(), true, batch_first));
        runs.push_back(std::move(d));
    }
    // Y [steps, directions, batch, hidden], or batch first [batch, steps, directions, hidden].
    Values out(c.output_count(), kNone);
    if (c.output_wanted(0)) {
        Values all;
        for (int64_t t = 0; t < l.steps; ++t)
            for (const Direction& d : runs) all.push_back(with_axes(c, d.rows[static_cast<size_t>(t)], {0}));
        OPW_TRY(ValueId y, all.size() == 1 ? Result<ValueId>(all[0]) : emit1(c, "concat", all, {{"axis", 0}}));
        y = c.view(y, {Sym(l.steps), Sym(static_cast<int64_t>(runs.size())), l.batch, l.hidden});
        if (batch_first) { OPW_TRY(y, transposed(c, y, {2, 0, 1, 3})); }
        out[0] = y;
    }
    for (size_t k = 1; k < c.output_count() && k < 3; ++k) {
        if (!c.output_wanted(k)) continue;
        Values last;
        for (const Direction& d : runs) last.push_back(with_axes(c, k == 1 ? d.h : d.c, {0}));
        OPW_TRY(out[k], last.size() == 1 ? Result<ValueId>(last[0]) : emit1(c, "concat", last, {{"axis", 0}}));
        if (batch_first) { OPW_TRY(out[k], transposed(c, out[k], {1, 0, 2})); }
    }
    return out;
}

}  // namespace

std::span<const Entry> recurrences() {
    static const Entry entries[] = {{"RNN", recurrent}, {"GRU", recurrent}, {"LSTM", recurrent}};
    return entries;
}

}  // namespace opwright::graph::onnx::bindings
