// Attention as a composition, rotary embeddings, linear attention.
#include <cmath>

#include "graph/onnx/bindings/common.h"

namespace opwright::graph::onnx::bindings {
namespace {

using Out = Result<Values>;

// [batch, heads, sequence, head] from either form that ONNX allows.
Result<ValueId> with_heads(NodeContext& c, ValueId v, int64_t heads) {
    const Dims s = shape_of(c, v);
    if (s.size() == 4) return v;
    if (s.size() != 3 || heads < 1)
        return c.unsupported("q_num_heads and kv_num_heads are needed for inputs of three dims");
    const Sym h(heads);
    OPW_TRY(const Sym head, divided(c, s[2], h, "heads"));
    return transposed(c, c.view(v, {s[0], s[1], h, head}), {0, 2, 1, 3});
}

Out attention(NodeContext& c) {
    const bool flat = rank_of(c, c.input(0)) == 3;
    const int64_t kv_heads = c.int_attribute("kv_num_heads", 0);
    OPW_TRY(ValueId q, with_heads(c, c.input(0), c.int_attribute("q_num_heads", 0)));
    OPW_TRY(ValueId k, with_heads(c, c.input(1), kv_heads));
    OPW_TRY(ValueId v, with_heads(c, c.input(2), kv_heads));
    Sym past = 0;
    if (input_or_none(c, 4) != kNone) {
        if (rank_of(c, c.input(4)) != 4 || input_or_none(c, 5) == kNone)
            return c.unsupported("past_key and past_value of four dims are needed together");
        past = shape_of(c, c.input(4))[2];
        OPW_TRY(k, emit1(c, "concat", {c.input(4), k}, {{"axis", 2}}));
        OPW_TRY(v, emit1(c, "concat", {c.input(5), v}, {{"axis", 2}}));
    }
    const DType t = type_of(c, q);
    const Dims qs = shape_of(c, q), ks = shape_of(c, k), vs = shape_of(c, v);
    const Sym heads = ks[1], rows = qs[2], columns = ks[2];
    OPW_TRY(const Sym group, divided(c, qs[1], heads, "heads of keys"));
    const auto head = qs[3].constant();
    double scale = c.float_attribute("scale", 0);
    if (!c.has("scale")) {
        if (!head) return c.unsupported("the head size must be known, or the scale given");
        scale = 1 / std::sqrt(static_cast<double>(*head));
    }
    const double softcap = c.float_attribute("softcap", 0);
    const Attributes score_attributes = {{"scale", scale}, {"softcap", softcap}};
    const ValueId grouped = c.view(q, {qs[0], heads, group, rows, qs[3]});

    // A mask of truth values keeps, one of numbers adds; dims of the heads are split as those of the queries.
    ValueId bias = kNone, keep = kNone;
    if (input_or_none(c, 3) != kNone) {
        ValueId mask = with_rank(c, c.input(3), 4);
        const bool truth = type_of(c, mask) == DType::Bool;
        Dims m = shape_of(c, mask);
        if (m.size() != 4) return c.unsupported("attn_mask must have at most four dims");
        const Sym missing = columns - m[3];
        if (!missing.is(0) && !m[3].is(1)) {
            const ValueId fill = truth ? scalar(c, 0, DType::Bool) : scalar(c, -INFINITY, type_of(c, mask));
            OPW_TRY(mask, emit1(c, "pad", {mask, fill}, {{"begin", Dims(4, Sym(0))}, {"end", Dims{0, 0, 0, missing}}}));
            m = shape_of(c, mask);
        }
        const ValueId split =
            c.view(mask, m[1].is(1) ? Dims{m[0], 1, 1, m[2], m[3]} : Dims{m[0], heads, group, m[2], m[3]});
        if (truth)
            keep = split;
        else { OPW_TRY(bias, converted(c, split, t)); }
    }
    ValueId valid = input_or_none(c, 6);
    if (valid != kNone) { OPW_TRY(valid, converted(c, valid, DType::I64)); }
    OPW_TRY(ValueId raw, emit1(c, "attention_scores", {grouped, k}, score_attributes));
    Attributes masks = {{"causal", c.int_attribute("is_causal", 0) != 0}, {"past", past}};
    OPW_TRY(ValueId masked, emit1(c, "attention_masked", {raw, bias, keep, valid}, masks));
    const Sym last(4);
    ValueId in = masked;
    if (c.has("softmax_precision")) {
        OPW_TRY(DType precision, element_type(c, c.int_attribute("softmax_precision", 1)));
        OPW_TRY(in, converted(c, in, precision));
    }
    OPW_TRY(ValueId p, emit1(c, "softmax", {in}, {{"axes", Dims{last}}}));
    OPW_TRY(p, converted(c, p, t));
    OPW_TRY(ValueId y, emit1(c, "attention_mix", {p, v}));
    y = c.view(y, {qs[0], qs[1], rows, vs[3]});
    if (flat) {
        OPW_TRY(y, transposed(c, y, {0, 2, 1, 3}));
        y = c.view(y, {qs[0], rows, qs[1] * vs[3]});
    }
    Values out = {y};
    if (c.output_count() > 1) out.push_back(k);
    if (c.output_count() > 2) out.push_back(v);
    if (c.output_count() > 3) {
        ValueId qk = raw;
        const int64_t mode = c.int_attribute("qk_matmul_output_mode", 0);
        if (mode == 2)
            qk = masked;
        else if (mode == 3)
            qk = p;
        else if (mode == 0 && softcap != 0) {
            OPW_TRY(qk, emit1(c, "attention_scores", {grouped, k}, {{"scale", scale}}));
        }
        out.push_back(c.view(qk, {qs[0], qs[1], rows, columns}));
    }
    return out;
}

Out rotary(NodeContext& c) {
    ValueId x = c.input(0), cosine = c.input(1), sine = c.input(2);
    const Dims original = shape_of(c, x);
    const bool flat = original.size() == 3;  // [batch, sequence, heads * head], else [batch, heads, sequence, head]
    if (!flat && original.size() != 4) return c.unsupported("the input must have three or four dims");
    if (flat) {
        const int64_t heads = c.int_attribute("num_heads", 0);
        if (heads < 1) return c.unsupported("num_heads is needed for an input of three dims");
        OPW_TRY(const Sym head, divided(c, original[2], heads, "heads"));
        x = c.view(x, {original[0], original[1], Sym(heads), head});
    }
    const Dims s = shape_of(c, x);
    if (input_or_none(c, 3) != kNone) {
        OPW_TRY(cosine, emit1(c, "gather", {cosine, c.input(3)}, {{"axis", 0}}));
        OPW_TRY(sine, emit1(c, "gather", {sine, c.input(3)}, {{"axis", 0}}));
    }
    const Dims angles = shape_of(c, cosine);
    if (angles.size() != 3)
        return c.unsupported("the cosines must have the dims [batch, sequence, half], or positions be given");
    const Dims placed = flat ? Dims{angles[0], angles[1], 1, angles[2]} : Dims{angles[0], 1, angles[1], angles[2]};
    cosine = c.view(cosine, placed);
    sine = c.view(sine, placed);
    const int64_t turned = c.int_attribute("rotary_embedding_dim", 0);
    ValueId rest = kNone;
    if (turned > 0 && !s[3].is(turned)) {
        OPW_TRY(rest, part(c, x, 3, turned, s[3] - turned));
        OPW_TRY(x, part(c, x, 3, 0, turned));
    }
    OPW_TRY(ValueId y,
            emit1(c, "rotary", {x, cosine, sine}, {{"interleaved", c.int_attribute("interleaved", 0) != 0}}));
    if (rest != kNone) { OPW_TRY(y, emit1(c, "concat", {y, rest}, {{"axis", 3}})); }
    return Values{c.view(y, original)};
}

// One step after another: the sequence must have a known length.
Out linear_attention(NodeContext& c) {
    const std::string rule = c.string_attribute("update_rule", "gated_delta");
    const bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
    if (!gated && !delta && rule != "linear") return c.unsupported("update_rule '" + rule + "' is unknown");
    const int64_t q_heads = c.int_attribute("q_num_heads", 0), kv_heads = c.int_attribute("kv_num_heads", 0);
    if (q_heads < 1 || kv_heads < 1 || q_heads % kv_heads != 0)
        return c.unsupported("q_num_heads must be a positive multiple of kv_num_heads");
    const DType t = type_of(c, c.input(0));
    const Dims qs = shape_of(c, c.input(0)), vs = shape_of(c, c.input(2));
    const auto steps = qs.size() == 3 ? qs[1].constant() : std::nullopt;
    if (!steps || *steps > 512)
        return c.unsupported(
            "a recurrence over time is written out step by step, which needs a known length of at most 512");
    if (vs.size() != 3) return c.unsupported("query, key and value must have three dims");
    const Sym h(kv_heads), g(q_heads / kv_heads), b = qs[0], n = qs[1];
    OPW_TRY(const Sym d, divided(c, qs[2], q_heads, "heads"));
    OPW_TRY(const Sym e, divided(c, vs[2], kv_heads, "heads"));
    const auto head = d.constant();
    if (!head) return c.unsupported("the head size must be known");
    OPW_TRY(ValueId q, converted(c, c.view(c.input(0), {b, n, h, g, d}), DType::F32));
    OPW_TRY(ValueId k, converted(c, c.view(c.input(1), {b, n, h, d}), DType::F32));
    OPW_TRY(ValueId v, converted(c, c.view(c.input(2), {b, n, h, e}), DType::F32));
    ValueId state = input_or_none(c, 3), decay = input_or_none(c, 4), beta = input_or_none(c, 5);
    if (gated != (decay != kNone) || delta != (beta != kNone))
        return c.unsupported("update_rule '" + rule + "' does not fit the inputs decay and beta");
    const DType state_type = state == kNone ? t : type_of(c, state);
    if (state == kNone) {
        OPW_TRY(state, emit1(c, "full", {scalar(c, 0, DType::F32)}, {{"shape", Dims{b, h, d, e}}}));
    } else {
        OPW_TRY(state, converted(c, state, DType::F32));
    }
    if (decay != kNone) {
        if (rank_of(c, decay) != 3) return c.unsupported("decay must have three dims");
        const bool each = !shape_of(c, decay)[2].known_equal(h);
        OPW_TRY(decay, converted(c, c.view(decay, {b, n, h, each ? d : Sym(1)}), DType::F32));
    }
    if (beta != kNone) {
        if (rank_of(c, beta) != 3) return c.unsupported("beta must have three dims");
        const Sym last = shape_of(c, beta)[2];
        OPW_TRY(beta, converted(c, c.view(beta, {b, n, last}), DType::F32));
    }
    const double scale =
        c.float_attribute("scale", 0) == 0 ? 1 / std::sqrt(static_cast<double>(*head)) : c.float_attribute("scale", 0);
    Values rows;
    const auto step = [&](ValueId x, int64_t i) -> Result<ValueId> {
        if (x == kNone) return x;
        OPW_TRY(ValueId p, part(c, x, 1, i, 1));
        return without_axes(c, p, {1});
    };
    for (int64_t i = 0; i < *steps; ++i) {
        OPW_TRY(ValueId qi, step(q, i));
        OPW_TRY(ValueId ki, step(k, i));
        OPW_TRY(ValueId vi, step(v, i));
        OPW_TRY(ValueId di, step(decay, i));
        OPW_TRY(ValueId bi, step(beta, i));
        OPW_TRY(state, emit1(c, "linear_attention_state", {state, ki, vi, di, bi}));
        OPW_TRY(ValueId y, emit1(c, "linear_attention_read", {state, qi}, {{"scale", scale}}));
        rows.push_back(with_axes(c, y, {1}));
    }
    OPW_TRY(ValueId y, emit1(c, "concat", rows, {{"axis", 1}}));
    OPW_TRY(y, converted(c, c.view(y, {b, n, Sym(q_heads) * e}), t));
    Values out = {y};
    if (c.output_count() > 1) {
        OPW_TRY(ValueId last, converted(c, state, state_type));
        out.push_back(last);
    }
    return out;
}

}  // namespace

std::span<const Entry> attentions() {
    static const Entry entries[] = {
        {"Attention", attention}, {"RotaryEmbedding", rotary}, {"LinearAttention", linear_attention}};
    return entries;
}

}  // namespace opwright::graph::onnx::bindings
