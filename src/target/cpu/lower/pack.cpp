#include "target/cpu/lower/pack.h"

#include <algorithm>

namespace opwright::target::cpu {
using namespace math;
using LExpr = loop::Expr;

Divided divide(Context& c, LExpr flat, LExpr n, const char* quotient, const char* rest) {
    const LExpr q = c.b.let(quotient, loop::floordiv(flat, n));
    return {q, c.b.let(rest, loop::is_literal(n) ? loop::mod(flat, n) : flat - q * n)};
}

void decode(Context& c, Point& point, const std::vector<VarId>& vars, LExpr flat) {
    for (size_t i = vars.size(); i-- > 0;) {
        if (i == 0) {
            point.bind(vars[0], flat);
            return;
        }
        const LExpr n = point.sym(c.math.vars[vars[i]].extent);
        const Divided d = divide(c, flat, n, "outer", c.math.vars[vars[i]].name.c_str());
        point.bind(vars[i], d.rest);
        flat = d.quotient;
    }
}

LExpr factor_value(Point& point, ExprId factor, DType t) {
    const LExpr v = loop::cast(point.eval(factor, 0), t);
    if (!is_float(t)) return v;
    const double smallest_normal = t == DType::F64 ? 0x1p-1022 : 0x1p-126;
    const auto lift = [&](double x) { return loop::broadcast(loop::literal(*v.program, t, x), v.type().lanes); };
    const LExpr tiny = loop::lt(loop::unary(loop::UnaryFn::Abs, v), lift(smallest_normal));
    return loop::select(tiny, lift(0), v);
}

namespace {
constexpr int64_t kLargestStep = 4;  // between lanes, of a load that shuffles pick apart
}  // namespace

// Blocks of 4, 2, 1 lanes change places between vectors that lie as far apart.
std::vector<LExpr> transposed(loop::Builder& b, std::vector<LExpr> v) {
    const int n = static_cast<int>(v.size());
    for (int far = n / 2; far > 0; far /= 2) {
        std::vector<int> low, high;
        for (int l = 0; l < n; ++l) {
            low.push_back(l & far ? n + (l ^ far) : l);
            high.push_back(l & far ? n + l : l | far);
        }
        for (int i = 0; i < n; ++i) {
            if (i & far) continue;
            const auto x = static_cast<size_t>(i), y = static_cast<size_t>(i | far);
            const LExpr upper = b.let("t", loop::permute_lanes(v[x], v[y], low));
            v[y] = b.let("t", loop::permute_lanes(v[x], v[y], high));
            v[x] = upper;
        }
    }
    return v;
}

Packer::Packer(Context& c, Point& point, ExprId factor, std::vector<VarId> across, std::vector<VarId> along,
               int64_t width, int lanes, DType type, loop::BufferId row, Words words)
    : c_(c),
      b_(c.b),
      point_(point),
      factor_(words.parts > 1 ? words.value : factor),
      across_(std::move(across)),
      along_(std::move(along)),
      width_(width),
      lanes_(lanes),
      type_(type),
      row_(row),
      words_(words) {}

// The present element as the bits of a part: bf16 loses nothing as the upper half of an f32.
LExpr Packer::part() {
    const LExpr v = point_.eval(words_.value, 0);
    if (words_.parts == 4) {
        const LExpr bits = loop::bitcast(v, DType::U8);
        return words_.flip ? loop::binary(loop::BinaryFn::Xor, bits, loop::literal_int(*bits.program, DType::U8, 0x80)) : bits;
    }
    const loop::Node& n = v.program->node(v.id);
    if (n.op == loop::Op::Cast && v.program->type(n.args[0]).dtype == DType::BF16)
        return loop::bitcast(LExpr(v.program, n.args[0]), DType::U16);
    const LExpr bits = loop::bitcast(v, DType::U32);
    return loop::wrap(loop::binary(loop::BinaryFn::Shr, bits, loop::literal_int(*bits.program, DType::U32, 16)), DType::U16);
}

// The parts at depth k and the depths behind it, on the lanes that the point has, widened to t. With `end`, those from there
// on are zero.
std::vector<LExpr> Packer::parts(LExpr k, LExpr end, DType t) {
    std::vector<LExpr> r;
    for (int i = 0; i < words_.parts; ++i) {
        const Point::Scope scope = point_.save();
        point_.bind(along_.back(), end ? b_.let("k", loop::min(k + i, end - 1)) : k + i);
        LExpr x = loop::wrap(point_.broadcast(part()), t);
        if (end && i > 0) x = loop::select(loop::broadcast(loop::lt(k + i, end), x.type().lanes), x, loop::like_int(x, 0));
        r.push_back(x);
        point_.restore(scope);
    }
    return r;
}

namespace {
// Side by side from the lowest bits on, each `bits` wide.
LExpr joined(const std::vector<LExpr>& parts, size_t first, size_t count, int bits) {
    LExpr r = parts[first];
    for (size_t i = 1; i < count; ++i) {
        const LExpr x = parts[first + i];
        r = loop::either(r, loop::binary(loop::BinaryFn::Shl, x, loop::like_int(x, bits * static_cast<int64_t>(i))));
    }
    return r;
}
}  // namespace

LExpr Packer::word(LExpr k, LExpr end) {
    return joined(parts(k, end, DType::I32), 0, static_cast<size_t>(words_.parts), 32 / words_.parts);
}

// The words of twice as many lanes as a vector has, the lower lanes and the upper: halves of words are made on all lanes at
// a time, then interleaved.
std::pair<LExpr, LExpr> Packer::two_words(LExpr k, LExpr end) {
    const std::vector<LExpr> p = parts(k, end, DType::U16);
    const size_t half = static_cast<size_t>(words_.parts) / 2;
    const LExpr low = b_.let("low", joined(p, 0, half, 8)), high = b_.let("high", joined(p, half, half, 8));
    const auto interleaved = [&](int from) {
        std::vector<int> table;
        for (int i = 0; i < lanes_; ++i) table.insert(table.end(), {from + i, 2 * lanes_ + from + i});
        return loop::bitcast(loop::permute_lanes(low, high, table), loop::Type{DType::I32, static_cast<uint16_t>(lanes_)});
    };
    return {interleaved(0), interleaved(lanes_)};
}

// Words that are full, then the one that is not: the body gets the depth of the first part, and for the latter the end.
void Packer::each_word(LExpr k0, LExpr k1, const std::function<void(LExpr, LExpr)>& body) {
    const LExpr full = b_.let("full_words", k0 + loop::floordiv(k1 - k0, words_.parts) * words_.parts);
    b_.loop("k", k0, full, words_.parts, [&](LExpr k) { body(k, {}); });
    b_.if_(loop::lt(full, k1), [&] { body(full, k1); });
}

// Elements between neighbours along v in all that the factor reads; 0 for what does not depend on v. nullopt where
// accesses differ, where one is not a number, and where nothing depends on v.
std::optional<int64_t> Packer::step(VarId v) const {
    std::optional<int64_t> r;
    std::vector<bool> seen(c_.math.expr_count());
    std::vector<ExprId> stack{factor_};
    while (!stack.empty()) {
        const ExprId x = stack.back();
        stack.pop_back();
        if (seen[x]) continue;
        seen[x] = true;
        const math::Expr& n = c_.math.expr(x);
        if (n.kind == ExprKind::Load) {
            Sym stride = 0;
            for (size_t d = 0; d < c_.math.tensors[n.ref].shape.size(); ++d) {
                const auto f = affine(c_.math, n.args[d]);
                if (!f) return std::nullopt;
                stride = stride + f->coefficient(v) * c_.storage[n.ref].strides[d];
            }
            if (!stride.is(0)) {
                if (!stride.constant() || (r && *r != *stride.constant())) return std::nullopt;
                r = stride.constant();
            }
        }
        for (ExprId a : n.args) stack.push_back(a);
    }
    return r;
}

bool Packer::flat() const {
    std::vector<bool> seen(c_.math.expr_count());
    std::vector<ExprId> stack{factor_};
    while (!stack.empty()) {
        const ExprId e = stack.back();
        stack.pop_back();
        if (seen[e]) continue;
        seen[e] = true;
        const math::Expr& x = c_.math.expr(e);
        if (x.kind == ExprKind::Inside) return false;
        if (x.kind == ExprKind::Index && std::find(across_.begin(), across_.end(), x.ref) != across_.end()) return false;
        if (x.kind != ExprKind::Load) {
            stack.insert(stack.end(), x.args.begin(), x.args.end());
            continue;
        }
        const auto& shape = c_.math.tensors[x.ref].shape;
        std::vector<Sym> along(across_.size(), 0);
        for (size_t d = 0; d < shape.size(); ++d) {
            const auto f = affine(c_.math, x.args[d]);
            if (!f) return false;
            for (size_t i = 0; i < across_.size(); ++i) {
                const Sym k = f->coefficient(across_[i]);
                if (k.is(0)) continue;
                if (!f->is_plain_var() || (shape[d] - c_.math.vars[across_[i]].extent).lower() < 0) return false;
                along[i] = along[i] + c_.storage[x.ref].strides[d];
            }
        }
        for (size_t i = 0; i + 1 < across_.size(); ++i)
            if (!(along[i] == along[i + 1] * c_.math.vars[across_[i + 1]].extent)) return false;
        stack.insert(stack.end(), x.args.begin() + static_cast<long>(shape.size()), x.args.end());
    }
    return true;
}

void Packer::pack(loop::BufferId dst, LExpr base, LExpr stride, LExpr first, LExpr end, LExpr k0, LExpr k1, bool one) {
    if (words_.tile_rows) return into_tiles(dst, base, stride, first, end, k0, k1);
    bring(dst, base, stride, first, end, k0, k1, one);
    if (words_.tiles) fill_up(dst, base, stride, loop::ceildiv(end - first, width_), b_.let("words", loop::ceildiv(k1 - k0, words_.parts)));
}

void Packer::bring(loop::BufferId dst, LExpr base, LExpr stride, LExpr first, LExpr end, LExpr k0, LExpr k1, bool one) {
    if (across_.empty() || along_.empty()) return one_by_one(dst, base, stride, first, end, k0, k1);
    const auto along = step(along_.back()), across = step(across_.back());
    const bool can_along = along && *along >= 1 && *along <= kLargestStep;
    const bool single = across_.size() == 1 || flat();
    // A row of several variables is made at one position of depth, and a word has some.
    const bool can_across = single || (row_ != loop::BufferId::none && words_.parts == 1);
    const auto by_depth = [&] { along_depth(dst, base, stride, first, end, k0, k1); };
    const auto by_rows = [&] { across_rows(dst, base, stride, first, end, k0, k1, one); };
    if (!can_along && can_across && (across || row_ != loop::BufferId::none)) return by_rows();
    // Words side by side along the depth are vectors as they lie in memory; a step between them would be one of parts.
    if (!can_along || (words_.parts > 1 && *along != 1 && !can_across)) return one_by_one(dst, base, stride, first, end, k0, k1);
    if (words_.parts > 1 && *along != 1) return by_rows();
    if (!can_across || across != 1) return by_depth();
    // Both are contiguous, as in the windows of a convolution: the longer run wins.
    const Sym &run = c_.math.vars[along_.back()].extent, &row = c_.math.vars[across_.back()].extent;
    if ((row - run).lower() >= 0 || run.upper() <= lanes_ || single) return by_rows();
    if ((run - row).lower() > 0 || row.upper() <= lanes_) return by_depth();
    b_.if_(loop::gt(point_.sym(run), point_.sym(row)), by_depth, by_rows);
}

bool Packer::in_rows() const {
    return !across_.empty() && !along_.empty() && step(across_.back()) == 1 && (across_.size() == 1 || flat());
}

bool Packer::can_copy() const { return words_.parts == 1 && along_.size() == 1 && !across_.empty() && step(along_[0]) == 1; }

void Packer::copy(loop::BufferId dst, LExpr base, LExpr pitch, LExpr first, LExpr end, LExpr k0, LExpr k1) {
    const LExpr rows = loop::ceildiv(end - first, width_) * width_;
    b_.loop("r", b_.i64(0), rows, 1, [&](LExpr r) {
        const Point::Scope scope = point_.save();
        decode(c_, point_, across_, b_.let("row", loop::min(first + r, end - 1)));
        const LExpr at = b_.let("at", base + r * pitch);
        const auto step = [&](LExpr k, LExpr mask) {
            const Point::Scope s = point_.save();
            point_.set_lanes(along_[0], lanes_, 1, mask);
            point_.bind(along_[0], k);
            b_.store(dst, at + (k - k0), point_.broadcast(value()));
            point_.restore(s);
        };
        const LExpr main = b_.let("main", k0 + loop::floordiv(k1 - k0, lanes_) * lanes_);
        b_.loop("k", k0, main, lanes_, [&](LExpr k) { step(k, {}); });
        b_.if_(loop::lt(main, k1), [&] { step(main, loop::first_lanes(k1 - main, lanes_)); });
        point_.restore(scope);
    });
}

// The depths [k0, k1) as runs of the innermost variable: body gets the depth that a run of it starts at, and the part
// of the run that is wanted; all variables but the innermost are bound.
void Packer::each_line(LExpr k0, LExpr k1, const std::function<void(LExpr, LExpr, LExpr)>& body) {
    if (along_.size() == 1) return body(b_.i64(0), k0, k1);
    const std::vector<VarId> outer(along_.begin(), along_.end() - 1);
    const LExpr n = point_.sym(c_.math.vars[along_.back()].extent);
    const LExpr line0 = b_.let("line0", loop::floordiv(k0, n)), line1 = b_.let("line1", loop::floordiv(k1 - 1, n) + 1);
    b_.loop("line", line0, loop::select(loop::lt(k0, k1), line1, line0), 1, [&](LExpr line) {
        const Point::Scope scope = point_.save();
        decode(c_, point_, outer, line);
        const LExpr start = b_.let("start", line * n);
        body(start, b_.let("from", loop::max(k0 - start, b_.i64(0))), b_.let("to", loop::min(k1 - start, n)));
        point_.restore(scope);
    });
}
void Packer::each_depth(LExpr k0, LExpr k1, const std::function<void(LExpr)>& body) {
    each_line(k0, k1, [&](LExpr start, LExpr from, LExpr to) {
        b_.loop("k", from, to, 1, [&](LExpr k) {
            const Point::Scope scope = point_.save();
            point_.bind(along_.back(), k);
            body(start + k);
            point_.restore(scope);
        });
    });
}

// Lanes along the depth: squares of as many rows as lanes are loaded, transposed in registers and stored. A square may
// be written past its end; the next one puts that right, and a panel has room behind its last.
void Packer::along_depth(loop::BufferId dst, LExpr base, LExpr stride, LExpr first, LExpr end, LExpr k0, LExpr k1) {
    const VarId inner = along_.back();
    b_.loop("panel", b_.i64(0), loop::ceildiv(end - first, width_), 1, [&](LExpr panel) {
        const Point::Scope outside = point_.save();
        const LExpr at = b_.let("at", base + panel * stride * width_);
        std::vector<std::vector<LExpr>> rows;
        for (int64_t r = 0; r < width_; ++r) {
            decode(c_, point_, across_, b_.let("row", loop::min(first + panel * width_ + r, end - 1)));
            rows.emplace_back();
            for (VarId v : across_) rows.back().push_back(point_.variable(v));
        }
        each_line(k0, k1, [&](LExpr start, LExpr from, LExpr to) {
            if (words_.parts > 1)
                return b_.loop("k", from, to, lanes_ * words_.parts, [&](LExpr k) {
                    block(dst, at + in_panel(start + k - k0) * width_, rows, k, loop::first_lanes(to - k, lanes_ * words_.parts));
                });
            // What lies inside its tensor for all rows runs without tests.
            const Point::Scope scope = point_.save();
            Interior all;
            for (const auto& row : rows) {
                for (size_t v = 0; v < across_.size(); ++v) point_.bind(across_[v], row[v]);
                const Interior in = interior(c_, point_, inner, {}, {factor_});
                if (in.lanes)
                    all.lanes = all.lanes ? Range{loop::max(all.lanes->begin, in.lanes->begin),
                                                  loop::min(all.lanes->end, in.lanes->end)}
                                          : *in.lanes;
                all.whole = joint(all.whole, in.whole);
                point_.restore(scope);
            }
            // Where masks are free there is one form of a square, not two.
            if (!all.lanes && !all.whole && lanes_ * static_cast<int>(size_of(type_)) == 64)
                return b_.loop("k", from, to, lanes_, [&](LExpr k) {
                    block(dst, at + (start + k - k0) * width_, rows, k, loop::first_lanes(to - k, lanes_));
                });
            const bool bounded = all.lanes || all.whole;
            LExpr begin = from, stop = to;
            if (all.lanes) {
                begin = loop::min(loop::max(all.lanes->begin, from), to);
                stop = loop::min(all.lanes->end, to);
            }
            if (all.whole) begin = loop::select(all.whole, begin, to);
            begin = b_.let("begin", begin);
            const LExpr count = loop::max(stop - begin, b_.i64(0));
            const LExpr rest = b_.let("rest", begin + loop::floordiv(count, lanes_) * lanes_);
            const auto squares = [&](LExpr low, LExpr high, bool whole) {
                b_.loop("k", low, high, lanes_, [&](LExpr k) {
                    point_.set_interior(whole && bounded);
                    point_.set_whole_inside(whole && all.whole);
                    block(dst, at + (start + k - k0) * width_, rows, k,
                          whole ? LExpr{} : loop::first_lanes(high - k, lanes_));
                    point_.set_interior(false);
                    point_.set_whole_inside(false);
                });
            };
            if (bounded) squares(from, begin, false);
            squares(begin, rest, true);
            squares(rest, to, false);
        });
        point_.restore(outside);
    });
}
void Packer::block(loop::BufferId dst, LExpr at, const std::vector<std::vector<LExpr>>& rows, LExpr position,
                   LExpr mask) {
    const Point::Scope scope = point_.save();
    const auto lanes = static_cast<size_t>(lanes_);
    std::vector<std::vector<LExpr>> columns;  // by group of rows: a vector for each depth
    for (size_t r = 0; r < rows.size(); r += lanes) {
        std::vector<LExpr> v;
        for (size_t i = r; i < std::min(r + lanes, rows.size()); ++i) {
            for (size_t a = 0; a < across_.size(); ++a) point_.bind(across_[a], rows[i][a]);
            point_.set_lanes(along_.back(), lanes_ * words_.parts, 1, mask);
            point_.bind(along_.back(), position);
            if (words_.parts == 1) {
                v.push_back(b_.let("v", point_.broadcast(value())));
            } else {
                const LExpr x = point_.broadcast(part());
                v.push_back(b_.let("v", loop::bitcast(loop::select(mask, x, loop::like_int(x, 0)),
                                                      loop::Type{type_, static_cast<uint16_t>(lanes_)})));
            }
            point_.restore(scope);
        }
        v.resize(lanes, loop::broadcast(b_.literal(type_, 0), lanes_));
        columns.push_back(transposed(b_, std::move(v)));
    }
    // Depth by depth: what a group that is not full writes beyond the row is overwritten by the next depth's.
    for (size_t k = 0; k < lanes; ++k)
        for (size_t g = 0; g < columns.size(); ++g)
            b_.store(dst, at + static_cast<int64_t>(k) * width_ + static_cast<int64_t>(g * lanes), columns[g][k]);
}

// Lanes along the rows, position by position of the depth.
void Packer::across_rows(loop::BufferId dst, LExpr base, LExpr stride, LExpr first, LExpr end, LExpr k0, LExpr k1, bool one) {
    const bool several = across_.size() > 1 && !flat();
    std::optional<Range> lines;  // of rows of several variables: runs of the innermost one
    if (several) {
        const LExpr n = point_.sym(c_.math.vars[across_.back()].extent);
        lines = {b_.let("line0", loop::floordiv(first, n)), b_.let("line1", loop::floordiv(end - 1, n) + 1)};
    }
    const int64_t vectors = (width_ + lanes_ - 1) / lanes_;
    // One panel at one position of the depth.
    const auto panel_at = [&](LExpr at, LExpr panel, LExpr k, LExpr depth_end, bool masked) {
        const LExpr row0 = first + panel * width_, to = at + panel * stride * width_;
        // The body on rows from the v-th vector on, on so many lanes, under a mask or none.
        const auto rows = [&](int64_t v, int lanes, auto&& body) {
            const LExpr j = row0 + v * lanes_;
            const bool partial = v * lanes_ + lanes > width_;
            const LExpr rest = b_.i64(width_ - v * lanes_);  // of the panel
            const LExpr valid = !masked ? rest : partial ? loop::min(end - j, rest) : end - j;
            const LExpr mask = masked || partial ? loop::first_lanes(valid, lanes) : LExpr{};
            const Point::Scope inner = point_.save();
            for (VarId v : across_) point_.bind(v, b_.i64(0));
            point_.set_lanes(across_.back(), lanes, 1, mask);
            point_.bind(across_.back(), j);
            body(j, mask);
            point_.restore(inner);
        };
        if (words_.parts > 1 && width_ % (2 * lanes_) == 0) {
            for (int64_t v = 0; v < vectors; v += 2)
                rows(v, 2 * lanes_, [&](LExpr j, LExpr mask) {
                    auto [low, high] = two_words(k, depth_end);
                    const auto kept = [&](LExpr x, int64_t from) {
                        if (!mask) return x;
                        return loop::select(loop::first_lanes(end - j - from, lanes_), x, loop::like_int(x, 0));
                    };
                    b_.store(dst, to + v * lanes_, kept(low, 0));
                    b_.store(dst, to + (v + 1) * lanes_, kept(high, lanes_));
                });
            return;
        }
        for (int64_t v = 0; v < vectors; ++v)
            rows(v, lanes_, [&](LExpr j, LExpr mask) {
                LExpr x = several            ? b_.load(row_, j - first, lanes_, mask)
                          : words_.parts > 1 ? word(k, depth_end)
                                             : point_.broadcast(value());
                if (mask) x = loop::select(mask, x, loop::broadcast(b_.literal(type_, 0), lanes_));
                // What goes beyond the panel's width is overwritten by the next position of the depth.
                b_.store(dst, to + v * lanes_, x);
            });
    };
    const auto each = [&](const std::function<void(LExpr at, LExpr k, LExpr depth_end)>& body) {
        const auto position = [&](LExpr k, LExpr depth_end) {
            point_.set_lanes(kNone, 1, 1, {});
            const LExpr at = b_.let("at", base + in_panel(k - k0) * width_);
            if (several) row_of(*lines, first, end);
            body(at, k, depth_end);
        };
        if (words_.parts > 1)
            each_word(k0, k1, position);
        else
            each_depth(k0, k1, [&](LExpr k) { position(k, {}); });
    };
    if (one) {
        const auto whole = [&](bool masked) {
            each([&](LExpr at, LExpr k, LExpr depth_end) { panel_at(at, b_.i64(0), k, depth_end, masked); });
        };
        b_.if_(loop::ge(end - first, b_.i64(width_)), [&] { whole(false); }, [&] { whole(true); });
        return;
    }
    const LExpr full = b_.let("full", loop::floordiv(end - first, width_));
    const LExpr count = b_.let("count", loop::ceildiv(end - first, width_));
    each([&](LExpr at, LExpr k, LExpr depth_end) {
        b_.loop("panel", b_.i64(0), full, 1, [&](LExpr panel) { panel_at(at, panel, k, depth_end, false); });
        b_.loop("panel", full, count, 1, [&](LExpr panel) { panel_at(at, panel, k, depth_end, true); });
    });
}

void Packer::one_by_one(loop::BufferId dst, LExpr base, LExpr stride, LExpr first, LExpr end, LExpr k0, LExpr k1) {
    b_.loop("panel", b_.i64(0), loop::ceildiv(end - first, width_), 1, [&](LExpr panel) {
        const LExpr at = b_.let("at", base + panel * stride * width_);
        b_.loop("r", 0, b_.i64(width_), 1, [&](LExpr r) {
            const Point::Scope scope = point_.save();
            decode(c_, point_, across_, b_.let("row", loop::min(first + panel * width_ + r, end - 1)));
            const auto element = [&](LExpr k, LExpr depth_end) {
                point_.set_lanes(kNone, 1, 1, {});
                b_.store(dst, at + in_panel(k - k0) * width_ + r, words_.parts > 1 ? word(k, depth_end) : value());
            };
            if (words_.parts > 1)
                each_word(k0, k1, element);
            else
                each_depth(k0, k1, [&](LExpr k) { element(k, {}); });
            point_.restore(scope);
        });
    });
}

// row[j - first] = the factor at row j, for rows of several variables: runs along the innermost one at a time. A run
// may write past its end; the next one puts that right, and the buffer has room behind the last.
void Packer::row_of(const Range& lines, LExpr first, LExpr end) {
    const VarId inner = across_.back();
    const std::vector<VarId> outer(across_.begin(), across_.end() - 1);
    const LExpr n = point_.sym(c_.math.vars[inner].extent);
    b_.loop("line", lines.begin, lines.end, 1, [&](LExpr line) {
        const Point::Scope scope = point_.save();
        decode(c_, point_, outer, line);
        const LExpr start = b_.let("start", line * n);
        const LExpr from = b_.let("from", loop::max(first - start, b_.i64(0)));
        const LExpr to = b_.let("to", loop::min(end - start, n));
        const auto step = [&](LExpr j, LExpr mask) {
            const Point::Scope s = point_.save();
            point_.set_lanes(inner, lanes_, 1, mask);
            point_.bind(inner, j);
            b_.store(row_, start + j - first, point_.broadcast(value()));
            point_.restore(s);
        };
        const auto tested = [&](LExpr begin, LExpr end) {
            const LExpr main = b_.let("main", begin + loop::floordiv(end - begin, lanes_) * lanes_);
            b_.loop("j", begin, main, lanes_, [&](LExpr j) { step(j, {}); });
            b_.loop("j", main, end, lanes_, [&](LExpr j) { step(j, loop::first_lanes(end - j, lanes_)); });
        };
        const Interior in = interior(c_, point_, inner, {}, {factor_});
        if (in.lanes || in.whole) {
            // Where no access leaves its tensor, nothing is tested.
            LExpr begin = from, end = to;
            if (in.lanes) {
                begin = b_.let("begin", loop::min(loop::max(in.lanes->begin, from), to));
                end = b_.let("end", loop::max(loop::min(in.lanes->end, to), begin));
            }
            const LExpr rest = b_.let("rest", begin + loop::floordiv(end - begin, lanes_) * lanes_);
            const auto inside = [&] {
                tested(from, begin);
                point_.set_interior(true);
                point_.set_whole_inside(static_cast<bool>(in.whole));
                b_.loop("j", begin, rest, lanes_, [&](LExpr j) { step(j, {}); });
                point_.set_interior(false);
                point_.set_whole_inside(false);
                tested(rest, to);
            };
            if (in.whole)
                b_.if_(in.whole, inside, [&] { tested(from, to); });
            else
                inside();
        } else {
            tested(from, to);
        }
        point_.restore(scope);
    });
}

}  // namespace opwright::target::cpu
