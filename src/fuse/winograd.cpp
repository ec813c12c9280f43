#include "fuse/winograd.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <set>

#include "fuse/layout.h"
#include "lang/library.h"
#include "math/inline.h"
#include "math/merge.h"
#include "math/permute_dims.h"
#include "math/pieces.h"
#include "math/unit_dims.h"

namespace opwright::fuse {
namespace {
using namespace math;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

constexpr double kLeastGain = 0.1;  // of a kernel's time: less is no reason to round otherwise

std::string duration(double seconds) {
    return seconds < 1e-3 ? fmt::format("{:.3g} µs", seconds * 1e6) : fmt::format("{:.3g} ms", seconds * 1e3);
}

// A sum over windows: z[n, o, h, w] = sum[c, k, l](x[n, c, h + k - top, w + l - left] * f[o, c, k, l]), with the dims of
// every tensor in any order.
struct Convolution {
    ExprId reduce = kNone;
    TensorId x = kNone, weights = kNone;
    // Where dims n, c, h, w of x and o, c, k, l of the weights stand.
    std::array<size_t, 4> x_dims{}, weights_dims{};
    VarId n = kNone, o = kNone, h = kNone, w = kNone;  // n: kNone where it is a single point
    std::vector<VarId> points;  // of these, in the order in which the kernel runs over them
    Sym top = 0, left = 0;
    std::string refusal;  // why Winograd's form does not serve it; empty: it may
};

class Matcher {
public:
    Matcher(const Program& p, std::function<bool(TensorId)> constant) : p_(p), constant_(std::move(constant)) {}

    // nullopt: the program holds no convolution.
    std::optional<Convolution> run() {
        std::vector<std::pair<const Equation*, ExprId>> sums;
        for (const Equation& q : p_.equations) {
            std::vector<bool> seen(p_.expr_count());
            std::vector<ExprId> stack{q.rhs};
            while (!stack.empty()) {
                const ExprId e = stack.back();
                stack.pop_back();
                if (seen[e]) continue;
                seen[e] = true;
                if (p_.expr(e).kind == ExprKind::Reduce) sums.emplace_back(&q, e);
                stack.insert(stack.end(), p_.expr(e).args.begin(), p_.expr(e).args.end());
            }
        }
        for (const auto& [q, e] : sums)
            if (windows(*q, p_.expr(e))) {
                c_.reduce = e;
                match(*q, p_.expr(e));
                if (c_.refusal.empty() && sums.size() > 1) c_.refusal = "its kernel holds other reductions";
                return c_;
            }
        return std::nullopt;
    }

private:
    static bool has(const std::vector<VarId>& v, VarId x) { return std::find(v.begin(), v.end(), x) != v.end(); }

    // Whether the sum is one of products in which a tensor is read at windows of two dims.
    bool windows(const Equation& q, const Expr& r) {
        if (r.reduce != ReduceOp::Sum) return false;
        const Expr& product = p_.expr(r.args[0]);
        if (product.kind != ExprKind::Call || product.fn != Fn::Mul) return false;
        for (int turn = 0; turn < 2; ++turn) {
            const Expr &a = p_.expr(product.args[turn ? 1 : 0]), &b = p_.expr(product.args[turn ? 0 : 1]);
            if (b.kind != ExprKind::Load) continue;
            std::vector<ExprId> stack{product.args[turn ? 1 : 0]};
            while (!stack.empty()) {  // the picture may be computed on the way
                const Expr& x = p_.expr(stack.back());
                stack.pop_back();
                if (x.kind != ExprKind::Load) {
                    if (x.kind == ExprKind::Call || x.kind == ExprKind::Cast) stack.insert(stack.end(), x.args.begin(), x.args.end());
                    continue;
                }
                int moving = 0;
                for (size_t d = 0; d < p_.tensors[x.ref].shape.size(); ++d) {
                    const auto f = affine(p_, x.args[d]);
                    if (!f || f->terms.size() != 2) continue;
                    const bool first = has(r.vars, f->terms[0].first), second = has(r.vars, f->terms[1].first);
                    moving += first != second;
                }
                if (moving == 0) continue;
                a_ = &a, b_ = &b;
                if (moving != 2) c_.refusal = fmt::format("its windows have {} dim{}", moving, moving == 1 ? "" : "s");
                return !q.vars.empty();
            }
        }
        return false;
    }

    void match(const Equation& q, const Expr& r) {
        if (!c_.refusal.empty()) return;
        const auto refuse = [&](std::string why) { c_.refusal = std::move(why); };
        if (a_->kind != ExprKind::Load) return refuse("what it reads is computed on the way");
        if (q.update != Update::Set || r.args.size() > 1) return refuse("it sets a part of its result");
        const Expr &x = *a_, &f = *b_;
        c_.x = x.ref, c_.weights = f.ref;
        if (r.dtype != DType::F32 || x.dtype != DType::F32 || f.dtype != DType::F32) return refuse(fmt::format("its type is {}", name(x.dtype)));
        if (x.outside == Outside::Value) {
            const Expr& fill = p_.expr(x.args.back());
            if (fill.kind != ExprKind::Literal || fill.number != 0) return refuse("its picture goes on with another number than 0");
        } else if (x.outside != Outside::Error) {
            return refuse("its picture goes on beyond its edges");
        }
        if (!constant_(c_.weights)) return refuse("its weights are no constants");
        std::array<VarId, 2> out{kNone, kNone}, tap{kNone, kNone};
        std::array<size_t, 2> spatial{};
        size_t found = 0, rest = 0;
        VarId channel = kNone;
        const size_t rank = p_.tensors[x.ref].shape.size();
        if (rank != 4 || p_.tensors[f.ref].shape.size() != 4 || r.vars.size() != 3) return refuse("it has groups");
        for (size_t d = 0; d < rank; ++d) {
            const auto at = affine(p_, x.args[d]);
            if (!at) return refuse("its picture is read at places of their own");
            if (at->terms.size() == 2 && found < 2) {
                const bool turned = has(r.vars, at->terms[0].first);
                const auto &o = at->terms[turned ? 1 : 0], &t = at->terms[turned ? 0 : 1];
                if (!o.second.is(1)) return refuse(fmt::format("its stride is {}", o.second.str()));
                if (!t.second.is(1)) return refuse(fmt::format("its dilation is {}", t.second.str()));
                if (!p_.vars[t.first].extent.is(3)) return refuse(fmt::format("its windows have {} taps a dim, not 3", p_.vars[t.first].extent.str()));
                out[found] = o.first, tap[found] = t.first, spatial[found] = d;
                (found == 0 ? c_.top : c_.left) = -at->offset;
                ++found;
            } else if (at->is_plain_var() && has(r.vars, at->terms[0].first)) {
                channel = at->terms[0].first;
                c_.x_dims[1] = d;
            } else if (at->is_plain_var() || (at->terms.empty() && at->offset.is(0))) {
                if (rest++ > 0) return refuse("it has groups");
                c_.x_dims[0] = d;
                if (!at->terms.empty()) c_.n = at->terms[0].first;
            } else {
                return refuse("its picture is read at places of their own");
            }
        }
        if (found != 2 || channel == kNone || rest != 1) return refuse("it has groups");
        c_.x_dims[2] = spatial[0], c_.x_dims[3] = spatial[1], c_.h = out[0], c_.w = out[1];
        std::set<size_t> seen;
        for (size_t d = 0; d < 4; ++d) {
            const Expr& at = p_.expr(f.args[d]);
            if (at.kind != ExprKind::Index) return refuse("its weights are read at places of their own");
            const size_t i = at.ref == channel ? 1 : at.ref == tap[0] ? 2 : at.ref == tap[1] ? 3 : 0;
            if (i == 0) c_.o = at.ref;
            c_.weights_dims[i] = d;
            if (!seen.insert(i).second) return refuse("it has groups");
        }
        const std::array<VarId, 4> points{c_.n, c_.o, c_.h, c_.w};
        for (VarId v : points)
            if (v != kNone && !has(q.vars, v)) return refuse("it sets a part of its result");
        if (q.vars.size() != (c_.n == kNone ? 3u : 4u)) return refuse("it has groups");
        for (const Sym& pad : {c_.top, c_.left})
            if (!pad.is_const() || *pad.constant() < 0) return refuse("its windows begin inside the picture");
        c_.points = q.vars;
    }

    const Program& p_;
    std::function<bool(TensorId)> constant_;
    Convolution c_;
    const Expr *a_ = nullptr, *b_ = nullptr;  // picture and weights
};

// The kernels in place of one.
struct Kernels {
    Program filter, input, product, output;
};

Program elaborated(const char* op, const std::vector<std::vector<Sym>>& shapes, const lang::Attributes& attributes) {
    std::vector<lang::Argument> arguments;
    for (const auto& s : shapes) arguments.push_back({DType::F32, s});
    auto p = lang::Library::standard().elaborate(op, arguments, attributes, lang::Broadcasting::Known);
    if (!p.ok()) throw std::logic_error(fmt::format("{}: {}", op, p.error().message));
    return std::move(*p);
}

// dims[i]: where dim i of the declaration's tensor stands. The order that permute_dims takes.
std::vector<size_t> order_of(const std::array<size_t, 4>& dims) {
    std::vector<size_t> r(4);
    for (size_t i = 0; i < 4; ++i) r[dims[i]] = i;
    return r;
}
Program with_order(Program p, TensorId t, const std::vector<size_t>& order) {
    std::vector<std::vector<size_t>> all(p.tensors.size());
    all[t] = order;
    return permute_dims(p, all);
}

// The program with the convolution's sum read from a tensor, its first input. Inputs that it then reads no more are left out:
// `kept` are those that stay.
Program reading(const Program& p, const Convolution& c, std::vector<size_t>& kept) {
    Program q;
    q.name = p.name;
    q.doc = p.doc;
    q.tensors = p.tensors;
    q.outputs = p.outputs;
    q.vars = p.vars;
    q.requirements = p.requirements;
    std::vector<Sym> shape(c.n == kNone ? 1 : 0, Sym(1));
    for (VarId v : c.points) shape.push_back(p.vars[v].extent);
    const TensorId z = q.add_tensor("z", DType::F32, std::move(shape), Role::Input);
    Rewriter w{.from = p, .into = q};
    for (TensorId t = 0; t < p.tensors.size(); ++t) w.tensors[t] = t;
    for (VarId v = 0; v < p.vars.size(); ++v) w.bound[v] = v;
    w.replace = [&](Rewriter& self, ExprId e) {
        if (e != c.reduce) return kNone;
        std::vector<ExprId> at(c.n == kNone ? 1 : 0, self.into.integer(0));
        for (VarId v : c.points) at.push_back(self.into.index(v));
        return self.into.load(z, std::move(at));
    };
    std::set<TensorId> read;
    for (const Equation& e : p.equations) {
        std::vector<ExprId> at;
        for (ExprId a : e.at) at.push_back(w(a));
        q.add_equation(e.lhs, std::move(at), w(e.rhs), e.update, e.outside, e.span);
        for (TensorId t : q.reads(q.equations.back().rhs)) read.insert(t);
    }
    for (size_t i = 0; i < p.inputs.size(); ++i)
        if (read.count(p.inputs[i])) {
            kept.push_back(i);
            q.inputs.push_back(p.inputs[i]);
        }
    return q;
}

class Pass {
public:
    Pass(Graph g, const WinogradOptions& o, const Machine& machine, const SymValues& sizes)
        : g_(std::move(g)), o_(o), machine_(machine), sizes_(sizes) {}

    Winograd run() {
        std::vector<Node> nodes = std::move(g_.nodes);
        g_.nodes.clear();
        constant_.assign(g_.values.size(), false);
        for (ValueId v = 0; v < g_.values.size(); ++v) constant_[v] = g_.values[v].constant.has_value();
        for (Node& n : nodes) {
            const bool constant = std::all_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) { return v == graph::kNone || constant_[v]; });
            if (!constant && n.kind == graph::NodeKind::Compute && convolution(n)) continue;
            for (ValueId v : n.outputs)
                if (v != graph::kNone) constant_[v] = constant;
            g_.add_node(std::move(n));
        }
        return {std::move(g_), std::move(choices_)};
    }

private:
    static std::string name_of(const Node& n) {
        for (const graph::SourceOp& s : n.sources)
            if (s.type.starts_with("Conv")) return s.name;
        return n.sources.empty() ? n.program.name : n.sources.front().name;
    }

    // Whether the node was replaced.
    bool convolution(const Node& n) {
        const auto constant = [&](TensorId t) {
            const auto at = std::find(n.program.inputs.begin(), n.program.inputs.end(), t);
            return at != n.program.inputs.end() && constant_[n.inputs[static_cast<size_t>(at - n.program.inputs.begin())]];
        };
        const auto c = Matcher(n.program, constant).run();
        if (!c) return false;
        WinogradChoice choice{.node = name_of(n)};
        if (!c->refusal.empty()) {
            choice.reason = c->refusal;
            choices_.push_back(std::move(choice));
            return false;
        }
        std::optional<Kernels> best;
        std::vector<size_t> kept;
        const auto asked = o_.at.find(choice.node);
        choice.direct = kernel_seconds(n.program, machine_, sizes_);
        for (int tile : {4, 2}) {
            if (asked != o_.at.end() && asked->second != tile) continue;
            std::vector<size_t> stay;
            auto k = kernels(n, *c, tile, stay);
            if (!k) continue;
            const double seconds = pieces_seconds(k->input) + kernel_seconds(k->product, machine_, sizes_) + pieces_seconds(k->output);
            if (best && seconds >= choice.winograd) continue;
            best = std::move(k), kept = std::move(stay);
            choice.winograd = seconds, choice.tile = tile;
        }
        const std::string times = fmt::format("{} in place of {}, predicted", duration(choice.winograd), duration(choice.direct));
        if (!best) {
            choice.reason = "what follows it in its kernel goes beyond its points";
        } else if (!o_.at.empty()) {
            choice.taken = asked != o_.at.end();
            choice.reason = choice.taken ? "asked for by name" : "not asked for by name";
        } else if (choice.winograd > choice.direct * (1 - kLeastGain)) {
            choice.reason = fmt::format("no gain of a tenth: {}", times);
        } else {
            choice.taken = true;
            choice.reason = fmt::format("{}, tiles of {} x {}", times, choice.tile, choice.tile);
        }
        const bool taken = choice.taken;
        if (taken) replace(n, *c, std::move(*best), kept, choice.node);
        choices_.push_back(std::move(choice));
        return taken;
    }

    std::optional<Kernels> kernels(const Node& n, const Convolution& c, int tile, std::vector<size_t>& kept) const {
        const Program& p = n.program;
        const auto& x = p.tensors[c.x].shape;
        const auto& f = p.tensors[c.weights].shape;
        const Sym height = p.vars[c.h].extent, width = p.vars[c.w].extent;
        const Sym h = x[c.x_dims[2]], w = x[c.x_dims[3]];
        const lang::Attribute size = Sym(tile);
        Kernels k;
        std::vector<Sym> canonical, weights;
        for (size_t d : c.x_dims) canonical.push_back(x[d]);
        for (size_t d : c.weights_dims) weights.push_back(f[d]);
        k.filter = elaborated("winograd_filter", {weights}, {{"tile", size}});
        const std::vector<Sym> u = k.filter.tensors[k.filter.outputs[0]].shape;
        k.filter = with_order(std::move(k.filter), k.filter.inputs[0], order_of(c.weights_dims));
        const std::vector<Sym> begin{c.top, c.left}, end{height + 2 - h - c.top, width + 2 - w - c.left};
        k.input = elaborated("winograd_input", {canonical}, {{"tile", size}, {"pad_begin", begin}, {"pad_end", end}});
        const std::vector<Sym> v = k.input.tensors[k.input.outputs[0]].shape;
        k.input = with_order(std::move(k.input), k.input.inputs[0], order_of(c.x_dims));
        k.product = elaborated("winograd_product", {v, u}, {});
        const std::vector<Sym> m = k.product.tensors[k.product.outputs[0]].shape;
        Program back = elaborated("winograd_output", {m}, {{"tile", size}, {"height", height}, {"width", width}});
        // The results in the order in which the kernel runs over its points.
        std::vector<size_t> order;
        if (c.n == kNone) order.push_back(0);
        for (VarId at : c.points) order.push_back(at == c.o ? 1 : at == c.h ? 2 : at == c.w ? 3 : 0);
        back = with_order(std::move(back), back.outputs[0], order);
        const Program rest = reading(p, c, kept);
        // Values by number: the products, their transform, what the kernel reads besides, what it delivers.
        uint32_t next = 2;
        std::vector<uint32_t> inputs{0}, reads{1}, outputs;
        for (size_t i = 0; i < kept.size(); ++i) inputs.push_back(next), reads.push_back(next++);
        for (size_t i = 0; i < p.outputs.size(); ++i) outputs.push_back(next++);
        const std::vector<Part> parts{{&back, {0}, {1}}, {&rest, reads, outputs}};
        k.output = inline_temporaries(drop_unit_variables(merge(p.name, parts, inputs, outputs))).program;
        return one_nest(k.output) && one_nest(k.input) ? std::optional(std::move(k)) : std::nullopt;
    }

    // Whether the scheduler makes it piece by piece, in one walk.
    static bool one_nest(const Program& p) {
        const auto w = write_out_tables(p);
        return w && std::all_of(w->equations.begin(), w->equations.end(),
                                [&](const Equation& q) { return q.update == Update::Overwrite && q.lhs == w->outputs[0] && q.vars == w->equations[0].vars; });
    }

    // Of a kernel that is made piece by piece: what all pieces compute and read, each once a point.
    double pieces_seconds(const Program& p) const {
        const Program w = write_out_tables(p).value();
        Work work;
        const auto value = [&](const Sym& s) { return static_cast<double>(evaluate(s, sizes_).value_or(1)); };
        const auto bytes = [&](TensorId t) { return value(product(w.tensors[t].shape)) * static_cast<double>(size_of(w.tensors[t].dtype)); };
        for (const auto* list : {&w.inputs, &w.outputs})
            for (TensorId t : *list) work.operands.push_back({bytes(t), bytes(t), 1});
        double points = 1, steps = 0, divide = 0, special = 0;
        for (VarId v : w.equations[0].vars) points *= value(w.vars[v].extent);
        std::vector<bool> seen(w.expr_count());
        // Lanes run along the last variable; where that lies apart in memory, each lane fetches its own element.
        constexpr double kApart = 16, kStep = 0.5;  // simple operations of such a fetch, and of a load of a vector
        const VarId lane = w.equations[0].vars.back();
        const auto side_by_side = [&](const ExprId* at, size_t rank) {
            for (size_t d = 0; d < rank; ++d) {
                const auto f = affine(w, at[d]);
                if (!f || (!f->coefficient(lane).is(0) && (d + 1 < rank || !f->coefficient(lane).is(1)))) return false;
            }
            return true;
        };
        for (const Equation& q : w.equations) {
            steps += side_by_side(q.at.data(), q.at.size()) ? kStep : kApart;
            std::vector<ExprId> stack{q.rhs};
            while (!stack.empty()) {
                const ExprId e = stack.back();
                stack.pop_back();
                if (seen[e]) continue;
                seen[e] = true;
                const Expr& x = w.expr(e);
                if (x.kind == ExprKind::Load) {
                    steps += side_by_side(x.args.data(), w.tensors[x.ref].shape.size()) ? kStep : kApart;
                    continue;
                }
                if (x.kind == ExprKind::Call) {
                    const CostClass cost = info(x.fn).cost;
                    (cost == CostClass::Special ? special : cost == CostClass::Divide ? divide : steps) += 1;
                }
                stack.insert(stack.end(), x.args.begin(), x.args.end());
            }
        }
        work.simple = steps * points, work.divide = divide * points, work.special = special * points;
        work.tasks = std::max(1.0, points / value(w.vars[lane].extent));
        return estimate(machine_, work).seconds;
    }

    ValueId value(const std::string& name, const Program& p) {
        const TensorInfo& t = p.tensors[p.outputs[0]];
        return g_.add_value({name, t.dtype, t.shape, {}, {}, graph::kNone});
    }
    void replace(const Node& n, const Convolution& c, Kernels k, const std::vector<size_t>& kept, const std::string& name) {
        const auto input = [&](TensorId t) {
            const auto at = std::find(n.program.inputs.begin(), n.program.inputs.end(), t);
            return n.inputs[static_cast<size_t>(at - n.program.inputs.begin())];
        };
        const std::string base = g_.values[n.outputs[0]].name;
        const auto add = [&](Program p, std::vector<ValueId> inputs, const char* what) {
            const ValueId v = value(fmt::format("{}.{}", base, what), p);
            constant_.resize(g_.values.size(), false);
            Node m;
            m.sources = {{name, p.name}};
            m.inputs = std::move(inputs);
            m.outputs = {v};
            m.program = drop_unit_variables(p);
            g_.add_node(std::move(m));
            return v;
        };
        const ValueId u = add(std::move(k.filter), {input(c.weights)}, "kernels");
        constant_[u] = true;
        const ValueId v = add(std::move(k.input), {input(c.x)}, "tiles");
        const ValueId m = add(std::move(k.product), {v, u}, "products");
        Node last;
        last.sources = n.sources;
        last.inputs = {m};
        for (size_t i : kept) last.inputs.push_back(n.inputs[i]);
        last.outputs = n.outputs;
        last.program = drop_unit_variables(k.output);
        g_.add_node(std::move(last));
    }

    Graph g_;
    const WinogradOptions& o_;
    const Machine& machine_;
    const SymValues& sizes_;
    std::vector<bool> constant_;  // by value: depends on constants alone
    std::vector<WinogradChoice> choices_;
};
}  // namespace

Winograd use_winograd(Graph g, const WinogradOptions& o, const Machine& machine, const SymValues& sizes) {
    return Pass(std::move(g), o, machine, sizes).run();
}

}  // namespace opwright::fuse
