#include "target/triton/expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace opwright::target::triton {
using namespace math;

namespace {
bool is_name(const std::string& s) {
    return std::all_of(s.begin(), s.end(),
                       [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; });
}
Level broadcast_level(const Piece& p) { return p.axes.empty() ? p.level : kAtom; }
std::string level(const std::string& text, Level own, Level needed) { return own < needed ? "(" + text + ")" : text; }
}  // namespace

std::string storage_name(DType t) {
    switch (t) {
        case DType::Bool: return "tl.int1";
        case DType::I8: return "tl.int8";
        case DType::I16: return "tl.int16";
        case DType::I32: return "tl.int32";
        case DType::I64: return "tl.int64";
        case DType::U8: return "tl.uint8";
        case DType::U16: return "tl.uint16";
        case DType::U32: return "tl.uint32";
        case DType::U64: return "tl.uint64";
        case DType::F16: return "tl.float16";
        case DType::BF16: return "tl.bfloat16";
        case DType::F32: return "tl.float32";
        case DType::F64: return "tl.float64";
    }
    return "";
}
std::string compute_name(DType t) { return storage_name(compute_type(t)); }

std::string literal_text(const Expr& e, bool typed) {
    std::string r;
    if (e.dtype == DType::Bool) {
        r = e.integer ? "True" : "False";
    } else if (!is_float(e.dtype)) {
        r = e.dtype == DType::U64 ? std::to_string(static_cast<uint64_t>(e.integer)) : std::to_string(e.integer);
        if (e.dtype == DType::I64 && e.integer == std::numeric_limits<int64_t>::min()) r = "(-1 << 63)";
    } else if (std::isnan(e.number)) {
        r = "float(\"nan\")";
    } else if (std::isinf(e.number)) {
        r = e.number < 0 ? "float(\"-inf\")" : "float(\"inf\")";
    } else {
        r = compute_type(e.dtype) == DType::F32 ? fmt::format("{}", static_cast<float>(e.number))
                                                : fmt::format("{}", e.number);
        if (r.find_first_of(".e") == std::string::npos) r += ".0";
    }
    return typed ? fmt::format("tl.full([], {}, {})", r, compute_name(e.dtype)) : r;
}

// ---- axes and broadcasting ----------------------------------------------------------------------------------------

Axes Expressions::axes_of(ExprId e, const Axes& order) const {
    Axes found, r;
    for (VarId v : p_.free_vars(e))
        if (const auto it = axis.find(v); it != axis.end()) found.push_back(it->second);
    for (VarId a : order)
        if (has(found, a)) r.push_back(a);
    for (VarId a : found)
        if (!has(r, a))
            throw Refusal(fmt::format("the value {} lies along an axis that its block does not have", p_.print(e)));
    return r;
}

Axes Expressions::merge(std::initializer_list<Axes> all, const Axes& order) const {
    Axes r;
    for (VarId a : order)
        if (std::any_of(all.begin(), all.end(), [&](const Axes& x) { return has(x, a); })) r.push_back(a);
    return r;
}

std::string Expressions::over(const Piece& piece, const Axes& in, Level needed) const {
    if (piece.axes.empty() || piece.axes == in) return level(piece.text, piece.level, needed);
    const std::string atom = level(piece.text, piece.level, kAtom);
    if (piece.axes.size() == 2 && in.size() == 2) return "tl.trans(" + piece.text + ")";
    std::string at;
    for (VarId a : in) at += std::string(at.empty() ? "" : ", ") + (has(piece.axes, a) ? ":" : "None");
    return atom + "[" + at + "]";
}

Piece Expressions::bind(const Piece& piece, const std::string& name) {
    Piece r{names_.take(name), kAtom, piece.axes};
    out_.line(r.text + " = " + piece.text);
    return r;
}

std::optional<Piece> Expressions::mask(const Axes& axes) {
    Axes guarded;
    for (VarId a : axes)
        if (guard.count(a)) guarded.push_back(a);
    if (guarded.empty()) return std::nullopt;
    if (const auto it = known_.masks.find(guarded); it != known_.masks.end()) return it->second;
    Piece r{"", kCompare, guarded};
    for (VarId a : guarded) {
        const auto& [index_piece, bound] = guard.at(a);
        const std::string one = over(index_piece, guarded, kOr) + " < " + bound;
        if (guarded.size() == 1)
            r.text = one;
        else
            r.text += (r.text.empty() ? "(" : " & (") + one + ")";
    }
    if (guarded.size() > 1) r.level = kAnd;
    const std::string name =
        guarded.size() == 1 && guard.size() > 1 ? guard.at(guarded[0]).first.text + "_mask" : "mask";
    return known_.masks[guarded] = bind(r, name);
}

Piece Expressions::both(const std::optional<Piece>& a, const Piece& b, const Axes& order) const {
    if (!a) return b;
    const Axes axes = merge({a->axes, b.axes}, order);
    return {over(*a, axes, kAnd) + " & " + over(b, axes, kAnd), kAnd, axes};
}

// ---- index expressions ---------------------------------------------------------------------------------------------

bool Expressions::plain(ExprId e) const {
    const Expr& x = p_.expr(e);
    switch (x.kind) {
        case ExprKind::Index:
        case ExprKind::Size: return true;
        case ExprKind::Literal:
            return x.dtype == DType::Bool || (x.dtype == DType::I64 && std::abs(x.integer) < (1 << 30));
        case ExprKind::Call:
            switch (x.fn) {
                case Fn::Add:
                case Fn::Sub:
                case Fn::Mul:
                case Fn::Neg:
                case Fn::FloorDiv:
                case Fn::Mod:
                case Fn::Min:
                case Fn::Max:
                case Fn::Select:
                case Fn::Eq:
                case Fn::Ne:
                case Fn::Lt:
                case Fn::Le:
                case Fn::Gt:
                case Fn::Ge:
                case Fn::And:
                case Fn::Or:
                case Fn::Not:
                    return std::all_of(x.args.begin(), x.args.end(), [&](ExprId a) { return plain(a); }) &&
                           (x.dtype == DType::Bool || range(e));
                default: return false;
            }
        default: return false;
    }
}

std::optional<Range> Expressions::range(ExprId e) const { return index_range(p_, e); }

// "2 * i + k - 1", terms as they come, the constant last.
Piece Expressions::linear(const Affine& a, const Axes& order) {
    Piece r{"", kSum, {}};
    for (const auto& [v, c] : a.terms) {
        const auto it = index.find(v);
        if (it == index.end()) throw Refusal("the index " + p_.vars[v].name + " has no value here");
        r.axes = merge({r.axes, it->second.axes}, order);
    }
    const auto add = [&](const Sym& c, const Piece* i) {
        const bool minus = c.is_const() && *c.constant() < 0;
        const Sym size = minus ? -c : c;
        std::string term = i ? over(*i, r.axes, kProduct) : file_.size(size);
        if (i && !size.is(1)) term = file_.size(size) + " * " + term;
        if (r.text.empty())
            r.text = (minus ? "-" : "") + term;
        else
            r.text += (minus ? " - " : " + ") + term;
    };
    const auto negative = [](const auto& term) { return term.second.lower() < 0; };
    const bool led = !a.terms.empty() && std::all_of(a.terms.begin(), a.terms.end(), negative) && !a.offset.is(0);
    if (led) add(a.offset, nullptr);  // 3 - i, not -i + 3
    for (const bool minus : {false, true})
        for (const auto& term : a.terms)
            if (negative(term) == minus) add(term.second, &index.at(term.first));
    if (!led && !a.offset.is(0)) add(a.offset, nullptr);
    if (r.text.empty()) r = {"0", kAtom, {}};
    if (a.terms.size() == 1 && a.terms[0].second.is(1) && a.offset.is(0)) r.level = kAtom;
    return r;
}

Piece Expressions::offset(ExprId e, const Axes& order) {
    const Expr x = p_.expr(e);
    if (!plain(e)) {
        if (x.kind == ExprKind::Cast && x.dtype == DType::I64 && is_int(p_.expr(x.args[0]).dtype) &&
            p_.expr(x.args[0]).dtype != DType::U64)
            return offset(x.args[0], order);
        Piece r = print(e, order);
        if (is_unsigned_int(x.dtype) || x.dtype == DType::I8 || x.dtype == DType::I16)
            r = {level(r.text, r.level, kAtom) + ".to(tl.int64)", kAtom, r.axes};
        return r;
    }
    switch (x.kind) {
        case ExprKind::Index: {
            const auto it = index.find(x.ref);
            if (it == index.end()) throw Refusal("the index " + p_.vars[x.ref].name + " has no value here");
            return it->second;
        }
        case ExprKind::Literal: return {literal_text(x), x.integer < 0 ? kUnary : kAtom, {}};
        case ExprKind::Size: return {file_.size(x.sym), kAtom, {}};
        default: break;
    }
    const auto arg = [&](size_t i) { return offset(x.args[i], order); };
    if (x.fn == Fn::Add || x.fn == Fn::Sub)
        if (const auto a = affine(p_, e)) return linear(*a, order);
    const auto infix = [&](const char* op, Level own) {
        const Piece a = arg(0), b = arg(1);
        const Axes axes = merge({a.axes, b.axes}, order);
        return Piece{fmt::format("{} {} {}", over(a, axes, own), op, over(b, axes, static_cast<Level>(own + 1))), own,
                     axes};
    };
    const auto prefix = [&](const std::string& f) {
        const Piece a = arg(0), b = arg(1);
        const Axes axes = merge({a.axes, b.axes}, order);
        return Piece{fmt::format("{}({}, {})", f, over(a, axes), over(b, axes)), kAtom, axes};
    };
    switch (x.fn) {
        case Fn::Add: return infix("+", kSum);
        case Fn::Sub: return infix("-", kSum);
        case Fn::Mul: return infix("*", kProduct);
        case Fn::Neg: {
            const Piece a = arg(0);
            return {"-" + over(a, a.axes, kUnary), kUnary, a.axes};
        }
        case Fn::FloorDiv:
        case Fn::Mod: {
            const auto a = range(x.args[0]);
            const bool div = x.fn == Fn::FloorDiv;
            // Triton's // and % round toward zero: as good as the floor where nothing is negative.
            if (a && a->low.lower() >= 0) return infix(div ? "//" : "%", kProduct);
            return prefix(file_.helper(div ? "_int_floor_div" : "_int_floor_mod"));
        }
        case Fn::Min: return prefix("tl.minimum");
        case Fn::Max: return prefix("tl.maximum");
        case Fn::Select: {
            const Piece c = offset(x.args[0], order), a = arg(1), b = arg(2);
            const Axes axes = merge({c.axes, a.axes, b.axes}, order);
            return {fmt::format("tl.where({}, {}, {})", over(c, axes), over(a, axes), over(b, axes)), kAtom, axes};
        }
        case Fn::Eq: return infix("==", kCompare);
        case Fn::Ne: return infix("!=", kCompare);
        case Fn::Lt: return infix("<", kCompare);
        case Fn::Le: return infix("<=", kCompare);
        case Fn::Gt: return infix(">", kCompare);
        case Fn::Ge: return infix(">=", kCompare);
        case Fn::And: return infix("&", kAnd);
        case Fn::Or: return infix("|", kOr);
        case Fn::Not: {
            const Piece a = arg(0);
            return {"~" + over(a, a.axes, kUnary), kUnary, a.axes};
        }
        default: throw Refusal("an index is computed by a function that is none of integers");
    }
}

// ---- accesses ------------------------------------------------------------------------------------------------------

Expressions::Place Expressions::place(TensorId t, const std::vector<ExprId>& at, Outside outside, const Axes& order,
                                      const Axes& least) {
    const TensorInfo& info = p_.tensors[t];
    std::vector<Piece> indices;
    Axes axes = least;
    Place r;
    std::optional<Piece> conditions, wrong;
    for (size_t d = 0; d < info.shape.size(); ++d) {
        Piece i = offset(at[d], order);
        const auto bounds = range(at[d]);
        const bool above = bounds && bounds->low.lower() >= 0;
        const bool below = bounds && (info.shape[d] - 1 - bounds->high).lower() >= 0;
        const bool data = !p_.reads(at[d]).empty();
        const std::string extent = file_.size(info.shape[d]);
        if (bounds && !(above && below) && p_.expr(at[d]).kind == ExprKind::Call) {
            file_.reach(bounds->high);
            file_.reach(-bounds->low);
        }
        if (!(above && below)) {
            const auto limits = [&](const Piece& x) {
                const std::string text = over(x, x.axes, kOr);
                if (above) return Piece{fmt::format("({} < {})", text, extent), kAtom, x.axes};
                if (below) return Piece{fmt::format("({} >= 0)", text), kAtom, x.axes};
                return Piece{fmt::format("({0} >= 0) & ({0} < {1})", text, extent), kAnd, x.axes};
            };
            switch (outside) {
                case Outside::Error:
                    if (!data) break;
                    if (!is_name(i.text)) i = bind(i, "at");
                    {
                        const Piece bad{fmt::format("(({0} < 0) | ({0} >= {1}))", i.text, extent), kAtom, i.axes};
                        const std::string message =
                            fmt::format("{}: an index lies outside dim {} of {}", p_.name, d, info.name);
                        const Piece where = both(mask(i.axes), bad, order);
                        out_.line(fmt::format("{}({}, {}, {})", file_.helper("_report"), error_pointer(), where.text,
                                              file_.report(message)));
                        conditions = both(conditions, limits(i), order);
                        r.outside = true;
                    }
                    break;
                case Outside::Value:
                    if (!is_name(i.text)) i = bind(i, "at");
                    conditions = both(conditions, limits(i), order);
                    r.outside = true;
                    break;
                case Outside::Clamp:
                    i = inward({fmt::format("tl.minimum(tl.maximum({}, 0), {} - 1)", i.text, extent), kAtom, i.axes}, at[d]);
                    break;
                case Outside::Wrap:
                    i = inward({fmt::format("{}({}, {})", file_.helper("_wrap"), i.text, extent), kAtom, i.axes}, at[d]);
                    break;
                case Outside::Reflect:
                    i = inward({fmt::format("{}({}, {})", file_.helper("_reflect"), i.text, extent), kAtom, i.axes}, at[d]);
                    break;
                case Outside::Mirror:
                    i = inward({fmt::format("{}({}, {})", file_.helper("_mirror"), i.text, extent), kAtom, i.axes}, at[d]);
                    break;
            }
        }
        axes = merge({axes, i.axes}, order);
        indices.push_back(std::move(i));
    }
    // (b * M + m) * N + n
    Piece sum{"", kAtom, axes};
    for (size_t d = 0; d < indices.size(); ++d) {
        if (!sum.text.empty() && !info.shape[d].is(1))
            sum = {over(sum, axes, kProduct) + " * " + file_.size(info.shape[d]), kProduct, axes};
        if (indices[d].text == "0") continue;
        if (sum.text.empty()) {
            sum = {over(indices[d], axes), indices[d].axes == axes ? indices[d].level : broadcast_level(indices[d]),
                   axes};
        } else {
            sum = {over(sum, axes, kSum) + " + " + over(indices[d], axes, kProduct), kSum, axes};
        }
    }
    r.axes = axes;
    r.pointer = pointer(t);
    if (!sum.text.empty()) r.pointer += " + " + over(sum, axes, kSum);
    r.mask = mask(axes);
    if (conditions) r.mask = both(r.mask, *conditions, order);
    return r;
}

// A position folded back inside, by the name that it got where it was needed first.
Piece Expressions::inward(const Piece& i, ExprId e) {
    const auto it = known_.inward.find(i.text);
    if (it != known_.inward.end()) return it->second;
    const std::vector<VarId> vars = p_.free_vars(e);
    return known_.inward[i.text] = bind(i, vars.size() == 1 ? p_.vars[vars[0]].name + "_inside" : "inside");
}

Piece Expressions::load(ExprId e, const Axes& order, const std::string& name, const LoadOptions& o) {
    const Expr x = p_.expr(e);
    const size_t rank = p_.tensors[x.ref].shape.size();
    const Place at =
        place(x.ref, {x.args.begin(), x.args.begin() + static_cast<long>(rank)}, x.outside, order, axes_of(e, order));
    std::string fill = o.other;
    bool patch = false;
    if (x.outside == Outside::Value && at.outside) {
        const Expr& f = p_.expr(x.args.back());
        // The hardware fills with a number; a computed value takes its place after.
        patch = f.kind != ExprKind::Literal || (!o.other.empty() && o.other != literal_text(f));
        if (!patch) fill = literal_text(f);
    }
    std::string text = "tl.load(" + at.pointer;
    if (at.mask) {
        text += ", mask=" + over(*at.mask, at.axes);
        if (!fill.empty() && !patch) text += ", other=" + fill;
    }
    if (!o.eviction.empty()) text += ", eviction_policy=\"" + o.eviction + "\"";
    if (o.past_l1) text += ", cache_modifier=\".cg\"";
    text += ")";
    const bool half = x.dtype == DType::F16 || x.dtype == DType::BF16;
    if (half && !o.raw) text += ".to(tl.float32)";
    Piece r = bind({text, kAtom, at.axes}, name);
    if (patch) {
        const Axes axes = merge({r.axes, axes_of(x.args.back(), order)}, order);
        const Piece is = inside(x, order);
        r = bind({fmt::format("tl.where({}, {}, {})", over(is, axes), over(r, axes), value(x.args.back(), axes)), kAtom,
                  axes},
                 name);
    }
    known_.values[e] = r;
    return r;
}

Piece Expressions::inside(const Expr& x, const Axes& order) {
    std::optional<Piece> r;
    const TensorInfo& t = p_.tensors[x.ref];
    for (size_t d = 0; d < t.shape.size(); ++d) {
        const auto bounds = range(x.args[d]);
        const bool above = bounds && bounds->low.lower() >= 0;
        const bool below = bounds && (t.shape[d] - 1 - bounds->high).lower() >= 0;
        if (above && below) continue;
        const Piece i = offset(x.args[d], order);
        const std::string text = over(i, i.axes, kOr), extent = file_.size(t.shape[d]);
        if (!above) r = both(r, {fmt::format("({} >= 0)", text), kAtom, i.axes}, order);
        if (!below) r = both(r, {fmt::format("({} < {})", text, extent), kAtom, i.axes}, order);
    }
    return r ? *r : Piece{"tl.full([], True, tl.int1)", kAtom, {}};
}

// ---- values --------------------------------------------------------------------------------------------------------

void Expressions::count(ExprId e) {
    if (uses_[e]++ > 0) return;
    if (held(e) || known_.values.count(e)) return;
    const Expr& x = p_.expr(e);
    if (x.kind == ExprKind::Load || x.kind == ExprKind::Inside) return;
    for (ExprId a : x.args) count(a);
}

std::string Expressions::value(ExprId e, const Axes& in, Level needed) {
    uses_.clear();
    count(e);
    return over(print(e, in), in, needed);
}

Piece Expressions::named(ExprId e, const Axes& order, const std::string& name) {
    uses_.clear();
    count(e);
    whole_ = e;
    Piece r = print(e, order);
    whole_ = kNone;
    const Expr& x = p_.expr(e);
    if (x.kind == ExprKind::Literal) r.text = literal_text(x, true);
    return is_name(r.text) ? r : bind(r, name);  // what has a name needs no second one
}

Piece Expressions::print(ExprId e, const Axes& order) {
    if (const Piece* b = held(e)) return *b;
    if (const auto it = known_.values.find(e); it != known_.values.end()) return it->second;
    const Expr x = p_.expr(e);
    Piece r;
    switch (x.kind) {
        case ExprKind::Literal: return {literal_text(x), literal_text(x).starts_with("-") ? kUnary : kAtom, {}};
        case ExprKind::Index:
        case ExprKind::Size: return integer(e, order, "tl.int64");
        case ExprKind::Load: return load(e, order, file_.tensor(x.ref));
        case ExprKind::Inside: return inside(x, order);
        case ExprKind::Call:
            if (plain(e)) return x.dtype == DType::Bool ? offset(e, order) : integer(e, order, "tl.int64");
            r = call(x, order);
            break;
        case ExprKind::Cast:
        case ExprKind::Wrap:
        case ExprKind::Bitcast: r = convert(x, order); break;
        case ExprKind::Reduce:
        case ExprKind::Scan: throw Refusal("a reduction is used before it is computed: " + p_.print(e));
    }
    // What is used twice gets a name, and so does what would make a line unreadable.
    const auto n = uses_.find(e);
    if (e != whole_ && ((n != uses_.end() && n->second > 1) || r.text.size() > 110)) {
        r = bind(r, "t");
        known_.values[e] = r;
    }
    return r;
}

Piece Expressions::integer(ExprId e, const Axes& order, const std::string& type) {
    if (p_.expr(e).kind == ExprKind::Call) {
        const auto r = range(e);
        file_.reach(r->high);
        file_.reach(-r->low);
    }
    const Piece i = offset(e, order);
    // A size of 1 is a plain number to the compiler, which has no `to`.
    if (p_.free_vars(e).empty()) return {fmt::format("tl.cast({}, {})", i.text, type), kAtom, i.axes};
    return {fmt::format("{}.to({})", level(i.text, i.level, kAtom), type), kAtom, i.axes};
}

Piece Expressions::operation(const std::string& op, Level own, ExprId a, ExprId b, const Axes& order,
                             bool associative) {
    const Piece x = print(a, order), y = print(b, order);
    const Axes axes = merge({x.axes, y.axes}, order);
    const Level left = own == kCompare ? kOr : own;
    const Level right = associative ? own : static_cast<Level>(own + 1);
    return {fmt::format("{} {} {}", over(x, axes, left), op, over(y, axes, right)), own, axes};
}

Piece Expressions::function(const std::string& f, const std::vector<ExprId>& args, const Axes& order,
                            const std::string& more) {
    std::vector<Piece> pieces;
    Axes axes;
    for (ExprId a : args) {
        pieces.push_back(print(a, order));
        axes = merge({axes, pieces.back().axes}, order);
    }
    std::string text;
    for (const Piece& a : pieces) text += (text.empty() ? "" : ", ") + over(a, axes);
    return {fmt::format("{}({}{})", f, text, more), kAtom, axes};
}

Piece Expressions::helper(const std::string& f, const std::vector<ExprId>& args, const Axes& order,
                          const std::string& more) {
    file_.helper(f);
    // A helper asks its arguments for their type, so that a number goes in as a tensor.
    std::vector<Piece> pieces;
    Axes axes;
    for (ExprId a : args) {
        Piece x = print(a, order);
        if (p_.expr(a).kind == ExprKind::Literal) x = {literal_text(p_.expr(a), true), kAtom, {}};
        axes = merge({axes, x.axes}, order);
        pieces.push_back(std::move(x));
    }
    std::string text;
    for (const Piece& a : pieces) text += (text.empty() ? "" : ", ") + over(a, axes);
    return {fmt::format("{}({}{})", f, text, more), kAtom, axes};
}

}  // namespace opwright::target::triton
