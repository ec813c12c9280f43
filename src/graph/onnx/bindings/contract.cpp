// Matrix products and Einstein sums.
#include <algorithm>
#include <map>

#include "graph/onnx/bindings/common.h"

namespace opwright::graph::onnx::bindings {
namespace {

using Out = Result<Values>;

// Operands with at least two dims, and how to bring the result back to what vectors ask for. A stack of matrices times
// one matrix is one taller matrix times that matrix.
struct Product {
    ValueId a, b;
    bool vector_a, vector_b;
    Dims rows;  // dims of the tall matrix's rows; empty where nothing was joined
};
Product operands(NodeContext& c, ValueId a, ValueId b) {
    Product p{a, b, rank_of(c, a) == 1, rank_of(c, b) == 1, {}};
    if (p.vector_a) p.a = with_axes(c, a, {0});
    if (p.vector_b) p.b = with_axes(c, b, {1});
    const Dims s = shape_of(c, p.a);
    if (s.size() > 2 && rank_of(c, p.b) == 2) {
        p.rows = slice_of(s, 0, s.size() - 1);
        p.a = c.view(p.a, {math::product(p.rows), s.back()});
    }
    return p;
}
ValueId restored(NodeContext& c, const Product& p, ValueId y) {
    if (!p.rows.empty()) y = c.view(y, joined({p.rows, {shape_of(c, y).back()}}));
    Ints drop;
    const int rank = rank_of(c, y);
    if (p.vector_a) drop.push_back(rank - 2);
    if (p.vector_b) drop.push_back(rank - 1);
    return without_axes(c, y, drop);
}

Out matmul(NodeContext& c) {
    if (rank_of(c, c.input(0)) == 0 || rank_of(c, c.input(1)) == 0)
        return c.unsupported("a matrix product has no scalar operands");
    const Product p = operands(c, c.input(0), c.input(1));
    OPW_TRY(ValueId y, emit1(c, "matmul", {p.a, p.b}));
    return Values{restored(c, p, y)};
}

// Zero points: one for all, or one a row of a (last but one dim) and one a column of b.
Result<ValueId> zero_of(NodeContext& c, size_t i) {
    const ValueId z = input_or_none(c, i);
    if (z == kNone) return z;
    const Dims s = shape_of(c, z);
    if (s.size() <= 1) return with_rank(c, z, 1);
    const Sym n = math::product(s);
    int wide = 0;
    for (const Sym& d : s) wide += d.is(1) ? 0 : 1;
    if (wide > 1) return c.unsupported("scales and zero points that differ between matrices of a stack");
    return c.view(z, {n});
}
// With per-row zero points a stack must not be joined into one matrix: its rows repeat.
bool varies(const NodeContext& c, ValueId z) { return z != kNone && !shape_of(c, z)[0].is(1); }

Out matmul_integer(NodeContext& c) {
    OPW_TRY(ValueId za, zero_of(c, 2));
    OPW_TRY(ValueId zb, zero_of(c, 3));
    Product p = operands(c, c.input(0), c.input(1));
    if (varies(c, za) && !p.rows.empty()) p = Product{c.input(0), p.b, false, p.vector_b, {}};
    OPW_TRY(ValueId y, emit1(c, "matmul_integer", {p.a, p.b, za, zb}));
    return Values{restored(c, p, y)};
}

Out matmul_quantised(NodeContext& c) {
    if (c.input_count() != 8) return c.unsupported("eight inputs are needed");
    Values in(8);
    for (size_t i : {1, 2, 4, 5}) { OPW_TRY(in[i], zero_of(c, i)); }
    for (size_t i : {6, 7}) in[i] = as_scalar(c, c.input(i));
    Product p = operands(c, c.input(0), c.input(3));
    if ((varies(c, in[1]) || varies(c, in[2])) && !p.rows.empty()) p = Product{c.input(0), p.b, false, p.vector_b, {}};
    in[0] = p.a;
    in[3] = p.b;
    OPW_TRY(ValueId y, emit1(c, "matmul_quantised", in));
    return Values{restored(c, p, y)};
}

Out gemm(NodeContext& c) {
    const double alpha = c.float_attribute("alpha", 1.0), beta = c.float_attribute("beta", 1.0);
    const ValueId bias = beta == 0.0 ? kNone : input_or_none(c, 2);
    ValueId a = c.input(0), b = c.input(1);
    if (rank_of(c, a) != 2 || rank_of(c, b) != 2) return c.unsupported("both factors must have two dims");
    return c.emit("gemm", {a, b, bias},
                  {{"alpha", alpha},
                   {"beta", beta},
                   {"trans_a", c.int_attribute("transA", 0) != 0},
                   {"trans_b", c.int_attribute("transB", 0) != 0}});
}

Out det(NodeContext& c) {
    const Dims s = shape_of(c, c.input(0));
    if (s.size() >= 2 && s.back().is(2)) return c.emit("determinant_2", {c.input(0)});
    if (s.size() >= 2 && s.back().is(3)) return c.emit("determinant_3", {c.input(0)});
    return c.unsupported(
        "only determinants of 2 x 2 and 3 x 3 matrices are declared; larger ones need an elimination, which is no sum "
        "over indices");
}

// ---- Einstein sums: the equation is a declaration but for its spelling.
struct Term {
    std::string before, after;  // letters before and after an ellipsis
    bool ellipsis = false;
};
Result<Term> term_of(const NodeContext& c, std::string_view text) {
    Term t;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] == ' ') continue;
        if (text.substr(i, 3) == "..." && !t.ellipsis) {
            t.ellipsis = true;
            i += 2;
        } else if (std::isalpha(static_cast<unsigned char>(text[i]))) {
            (t.ellipsis ? t.after : t.before) += text[i];
        } else {
            return c.unsupported("'" + std::string(1, text[i]) + "' has no meaning in an equation");
        }
    }
    return t;
}
std::string index_name(char letter) {
    return std::string("i_") + (std::isupper(static_cast<unsigned char>(letter)) ? "u" : "l") + letter;
}

std::string indices(const Term& t) {
    std::string out;
    const auto put = [&](const std::string& s) { out += (out.empty() ? "" : ", ") + s; };
    for (char l : t.before) put(index_name(l));
    if (t.ellipsis) put("rest...");
    for (char l : t.after) put(index_name(l));
    return out;
}

Out einsum(NodeContext& c) {
    const std::string equation = c.string_attribute("equation", "");
    const size_t arrow = equation.find("->");
    std::vector<Term> in;
    const std::string left = equation.substr(0, arrow);
    for (size_t begin = 0; begin <= left.size();) {
        const size_t comma = std::min(left.find(',', begin), left.size());
        OPW_TRY(Term t, term_of(c, std::string_view(left).substr(begin, comma - begin)));
        in.push_back(t);
        begin = comma + 1;
    }
    if (in.size() != c.input_count())
        return c.unsupported("the equation names another number of operands than there are inputs");
    std::map<char, int> seen;
    bool ellipsis = false;
    for (const Term& t : in) {
        ellipsis = ellipsis || t.ellipsis;
        for (char l : t.before + t.after) ++seen[l];
    }
    Term out;
    if (arrow == std::string::npos) {
        out.ellipsis = ellipsis;
        for (const auto& [l, n] : seen)
            if (n == 1) out.after += l;
    } else {
        OPW_TRY(out, term_of(c, std::string_view(equation).substr(arrow + 2)));
    }
    const std::string kept = out.before + out.after;
    for (char l : kept)
        if (!seen.count(l) || std::count(kept.begin(), kept.end(), l) > 1)
            return c.unsupported("the result of the equation must list letters of its operands, each once");
    std::string summed, params, product;
    for (const auto& [l, n] : seen)
        if (kept.find(l) == std::string::npos) summed += (summed.empty() ? "" : ", ") + index_name(l);
    if (ellipsis && !out.ellipsis) summed += (summed.empty() ? std::string() : std::string(", ")) + "rest...";
    for (size_t k = 0; k < in.size(); ++k) {
        const std::string x = "x" + std::to_string(k);
        // A letter that is met again in the same operand names a dim of its own, read along the diagonal.
        std::string dims, met;
        const auto put = [&](const std::string& s) { dims += (dims.empty() ? "" : ", ") + s; };
        const auto dim = [&](char l) {
            const size_t times = static_cast<size_t>(std::count(met.begin(), met.end(), l));
            met += l;
            put(times == 0 ? index_name(l) : index_name(l) + "_" + std::to_string(k) + "_" + std::to_string(times));
        };
        for (char l : in[k].before) dim(l);
        if (in[k].ellipsis) put("~rest...");
        for (char l : in[k].after) dim(l);
        params += (k ? ", " : "") + x + "[" + dims + "]";
        product += (k ? " * " : "") + x + "[" + indices(in[k]) + "]";
    }
    const std::string source = "op einsum(" + params + ") -> y[" + indices(out) + "] where T in numeric:\n    \"" +
                               equation + "\"\n    y[" + indices(out) +
                               "] = " + (summed.empty() ? product : "sum[" + summed + "](" + product + ")") + "\n";
    OPW_TRY(std::string op, c.declare(source));
    Values args;
    for (size_t k = 0; k < in.size(); ++k) args.push_back(c.input(k));
    return c.emit(op, args);
}

}  // namespace

std::span<const Entry> contractions() {
    static const Entry entries[] = {{"MatMul", matmul}, {"Gemm", gemm},
                                    {"Einsum", einsum}, {"MatMulInteger", matmul_integer},
                                    {"Det", det},       {"QLinearMatMul", matmul_quantised}};
    return entries;
}

}  // namespace opwright::graph::onnx::bindings
