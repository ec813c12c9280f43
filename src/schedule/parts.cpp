#include "schedule/parts.h"

#include <algorithm>

namespace opwright::schedule {
using namespace math;

namespace {
bool is_byte(DType t) { return t == DType::I8 || t == DType::U8; }

// Whether every value of e is a bf16, so that it loses nothing as one. An expression that computes in bf16 is none: it may
// stay in f32 all the way.
bool is_bf16(const Program& p, ExprId e) {
    const Expr& x = p.expr(e);
    switch (x.kind) {
        case ExprKind::Load:
            return p.tensors[x.ref].dtype == DType::BF16 && p.tensors[x.ref].role != Role::Temp &&
                   (x.outside != Outside::Value || is_bf16(p, x.args.back()));
        case ExprKind::Literal: return is_float(x.dtype) && static_cast<double>(bf16_to_f32(f64_to_bf16(x.number))) == x.number;
        case ExprKind::Cast: return (x.dtype == DType::F32 || x.dtype == DType::BF16) && is_bf16(p, x.args[0]);
        case ExprKind::Call:
            if (x.fn == Fn::Select) return is_bf16(p, x.args[1]) && is_bf16(p, x.args[2]);
            if (x.fn == Fn::Neg || x.fn == Fn::Abs) return is_bf16(p, x.args[0]);
            return (x.fn == Fn::Max || x.fn == Fn::Min) && is_bf16(p, x.args[0]) && is_bf16(p, x.args[1]);
        default: return false;
    }
}
}  // namespace

std::optional<ByteFactor> byte_factor(const Program& p, ExprId factor, const std::vector<VarId>& depth) {
    const auto widened = [&](ExprId e) -> std::optional<ExprId> {
        const Expr& x = p.expr(e);
        if (x.dtype != DType::I32 || (x.kind != ExprKind::Cast && x.kind != ExprKind::Wrap)) return std::nullopt;
        return is_byte(p.expr(x.args[0]).dtype) ? std::optional(x.args[0]) : std::nullopt;
    };
    const auto constant = [&](ExprId e) {
        const std::vector<VarId> vars = p.free_vars(e);
        return std::none_of(vars.begin(), vars.end(), [&](VarId v) { return std::find(depth.begin(), depth.end(), v) != depth.end(); });
    };
    if (const auto v = widened(factor)) return ByteFactor{*v};
    const Expr& x = p.expr(factor);
    if (x.kind != ExprKind::Call || x.dtype != DType::I32 || (x.fn != Fn::Sub && x.fn != Fn::Add)) return std::nullopt;
    for (size_t i = 0; i < (x.fn == Fn::Sub ? 1 : 2); ++i)
        if (const auto v = widened(x.args[i]); v && constant(x.args[1 - i]))
            return ByteFactor{*v, x.args[1 - i], x.fn == Fn::Sub};
    return std::nullopt;
}

int parts_of(const Program& p, const Contraction& c) {
    if (c.k.size() != 1) return 1;
    const DType sum = accumulate_type(p.expr(c.reduce).dtype);
    if (sum == DType::I32 && byte_factor(p, c.a, c.k) && byte_factor(p, c.b, c.k)) return 4;
    return sum == DType::F32 && is_bf16(p, c.a) && is_bf16(p, c.b) ? 2 : 1;
}

int parts_on(const Program& p, const Contraction& c, const target::Machine& m) {
    const int parts = parts_of(p, c);
    return (parts == 2 && m.bf16_pairs) || (parts == 4 && m.byte_fours) ? parts : 1;
}

bool tiles_on(const Program& p, const Contraction& c, const target::Machine& m) {
    const int parts = parts_of(p, c);
    return m.tiles && parts > 1 && (parts == 2 || byte_factor(p, c.b, c.k)->zero == kNone);
}

int speed_of(int parts, bool tiles) {
    // A tile's dot product: 16 x 16 x 16 words in 16 cycles, where two vectors of 16 multiply-adds start in each.
    return parts * (tiles ? 8 : 1);
}

std::string_view parts_text(int parts, bool tiles) {
    if (tiles) return parts == 2 ? ", products of tiles (bf16)" : ", products of tiles (8 bits)";
    return parts == 2 ? ", products in pairs (bf16)" : parts == 4 ? ", products in fours (8 bits)" : "";
}

}  // namespace opwright::schedule
