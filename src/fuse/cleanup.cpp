#include "fuse/cleanup.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "derive/reference.h"
#include "fuse/uses.h"
#include "math/facts.h"
#include "math/inline.h"
#include "math/merge.h"
#include "math/unit_dims.h"

namespace opwright::fuse {
namespace {
using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::NodeId;
using graph::NodeKind;
using graph::Value;
using graph::ValueId;

constexpr int64_t kFoldOperations = 1 << 18, kFoldElements = 1 << 16;

std::optional<Shape> constant_shape(const std::vector<math::Sym>& s) {
    Shape r;
    for (const math::Sym& d : s) {
        const auto c = d.constant();
        if (!c || *c < 0) return std::nullopt;
        r.push_back(*c);
    }
    return r;
}

// The reference's fp64 result in the type that a kernel stores.
Tensor rounded(const Tensor& t, DType type) {
    if (t.dtype() == type) return t;
    Tensor r(type, t.shape());
    for (int64_t i = 0; i < t.size(); ++i) r.set(i, t.get(i));
    return r;
}

void set_constant(Value& v, Tensor t) {
    if (!is_float(t.dtype()) && t.size() <= graph::kContentLimit && !v.content) {
        std::vector<math::Sym> c;
        for (int64_t i = 0; i < t.size(); ++i) c.emplace_back(t.get_int(i));
        v.content = std::move(c);
    }
    v.constant = std::move(t);
}

bool fold_node(Graph& g, const Node& n) {
    int64_t bytes_in = 0, elements = 0;
    std::vector<Tensor> inputs;
    for (ValueId v : n.inputs) {
        if (v == kNone || !g.values[v].constant) return false;
        inputs.push_back(*g.values[v].constant);
        bytes_in += static_cast<int64_t>(inputs.back().bytes());
    }
    for (ValueId v : n.outputs) {
        if (v == kNone) continue;
        const auto s = constant_shape(g.values[v].shape);
        if (!s || element_count(*s) < 0 || element_count(*s) > kFoldElements) return false;
        elements += element_count(*s) * static_cast<int64_t>(size_of(g.values[v].dtype));
    }
    if (elements > std::max<int64_t>(2 * bytes_in, 4096)) return false;  // a constant spread wide is fused instead
    if (!n.program.symbols().empty()) return false;
    const auto r = derive::reference(n.program, inputs, {}, {.max_operations = kFoldOperations});
    if (!r.ok() || r->size() != n.outputs.size()) return false;
    for (size_t i = 0; i < n.outputs.size(); ++i)
        if (n.outputs[i] != kNone) set_constant(g.values[n.outputs[i]], rounded((*r)[i].value, g.values[n.outputs[i]].dtype));
    return true;
}

std::string constant_key(const Tensor& t) {
    std::string k = std::string(name(t.dtype())) + to_string(t.shape());
    k.append(static_cast<const char*>(t.data()), t.bytes());
    return k;
}
}  // namespace

Graph fold_constants(Graph g) {
    std::vector<bool> keep(g.nodes.size(), true);
    for (NodeId i = 0; i < g.nodes.size(); ++i)
        if (g.nodes[i].kind == NodeKind::Compute && fold_node(g, g.nodes[i])) keep[i] = false;
        else if (g.nodes[i].kind == NodeKind::View && g.values[g.nodes[i].inputs[0]].constant) {
            Value& out = g.values[g.nodes[i].outputs[0]];
            const auto s = constant_shape(out.shape);
            const Tensor& in = *g.values[g.nodes[i].inputs[0]].constant;
            if (!s || element_count(*s) != in.size()) continue;
            set_constant(out, in.reshaped(*s));
            keep[i] = false;
        }
    keep_nodes(g, keep);
    return g;
}

Graph fold_views(Graph g) {
    auto by = no_replacement(g);
    std::vector<bool> keep(g.nodes.size(), true);
    const Uses uses(g);
    for (NodeId i = 0; i < g.nodes.size(); ++i) {
        Node& n = g.nodes[i];
        if (n.kind != NodeKind::View) continue;
        for (NodeId p = g.values[n.inputs[0]].producer; p != kNone && g.nodes[p].kind == NodeKind::View;
             p = g.values[n.inputs[0]].producer)
            n.inputs[0] = g.nodes[p].inputs[0];
        const Value &in = g.values[n.inputs[0]], &out = g.values[n.outputs[0]];
        if (in.shape.size() == out.shape.size() && std::equal(in.shape.begin(), in.shape.end(), out.shape.begin()) &&
            !uses.output[n.outputs[0]]) {
            by[n.outputs[0]] = n.inputs[0];
            keep[i] = false;
        }
    }
    replace_values(g, std::move(by));
    keep_nodes(g, keep);
    return g;
}

Graph remove_duplicates(Graph g) {
    auto by = no_replacement(g);
    std::vector<bool> keep(g.nodes.size(), true);
    std::unordered_map<std::string, ValueId> constants;
    for (ValueId v = 0; v < g.values.size(); ++v)
        if (g.values[v].constant && g.values[v].producer == kNone && g.values[v].constant->bytes() <= 4096) {
            const auto [it, fresh] = constants.emplace(constant_key(*g.values[v].constant), v);
            if (!fresh) by[v] = it->second;
        }
    // Canonical text is long: it is made only of nodes that agree in their inputs and in the size of their programs.
    std::unordered_map<std::string, NodeId> seen;
    std::unordered_map<std::string, std::vector<NodeId>> alike;
    const auto canonical = [](const Node& n) {
        // It renames symbols, so the symbols themselves belong to the key.
        std::string key;
        for (const std::string& s : n.program.symbols()) key += s + ";";
        return key + n.program.canonical();
    };
    const auto resolve = [&](ValueId v) {
        while (v != kNone && by[v] != v) v = by[v];
        return v;
    };
    const Uses uses(g);
    for (NodeId i = 0; i < g.nodes.size(); ++i) {
        Node& n = g.nodes[i];
        std::string key;
        for (ValueId& v : n.inputs) {
            v = resolve(v);
            key += std::to_string(v) + ",";
        }
        if (n.kind == NodeKind::View) {
            key += "view";
            for (const math::Sym& s : g.values[n.outputs[0]].shape) key += "," + s.str();
        } else {
            key += std::to_string(n.program.expr_count()) + "," + std::to_string(n.program.equations.size()) + ":";
            std::vector<NodeId>& others = alike[key];
            others.push_back(i);
            if (others.size() == 1) continue;
            if (others.size() == 2) seen.emplace(key + canonical(g.nodes[others[0]]), others[0]);
            key += canonical(n);
        }
        const auto [it, fresh] = seen.emplace(std::move(key), i);
        if (fresh) continue;
        const Node& first = g.nodes[it->second];
        const bool delivers = std::any_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) { return v != kNone && uses.output[v]; });
        if (delivers || first.outputs.size() != n.outputs.size()) continue;
        bool all = true;
        for (size_t o = 0; o < n.outputs.size(); ++o)
            all = all && (n.outputs[o] == kNone || first.outputs[o] != kNone);
        if (!all) continue;
        for (size_t o = 0; o < n.outputs.size(); ++o)
            if (n.outputs[o] != kNone) by[n.outputs[o]] = first.outputs[o];
        keep[i] = false;
    }
    // A graph's output keeps its own value, so only readers are redirected.
    const auto outputs = g.outputs;
    replace_values(g, std::move(by));
    g.outputs = outputs;
    keep_nodes(g, keep);
    return g;
}

Graph remove_dead(Graph g) {
    std::vector<bool> live(g.values.size()), keep(g.nodes.size());
    for (ValueId v : g.outputs) live[v] = true;
    for (NodeId i = static_cast<NodeId>(g.nodes.size()); i-- > 0;) {
        const Node& n = g.nodes[i];
        keep[i] = std::any_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) { return v != kNone && live[v]; });
        if (!keep[i]) continue;
        for (ValueId v : n.inputs)
            if (v != kNone) live[v] = true;
    }
    for (ValueId v : g.inputs) live[v] = true;
    keep_nodes(g, keep);
    // Drop values that are gone; node outputs that nothing reads stay as values until normalise() drops them.
    for (const Node& n : g.nodes)
        for (ValueId v : n.outputs)
            if (v != kNone) live[v] = true;
    std::vector<ValueId> to(g.values.size(), kNone);
    std::vector<Value> values;
    for (ValueId v = 0; v < g.values.size(); ++v)
        if (live[v]) {
            to[v] = static_cast<ValueId>(values.size());
            values.push_back(std::move(g.values[v]));
        }
    g.values = std::move(values);
    const auto renumber = [&](std::vector<ValueId>& vs) {
        for (ValueId& v : vs)
            if (v != kNone) v = to[v];
    };
    for (Node& n : g.nodes) renumber(n.inputs), renumber(n.outputs);
    renumber(g.inputs);
    renumber(g.outputs);
    return g;
}

namespace {
// Whether tensor t, of one element, is only read at places that exist, and at few of them.
bool read_as_number(const math::Program& p, math::TensorId t) {
    size_t places = 0;
    for (const math::Equation& q : p.equations) {
        if (q.lhs == t) return false;
        std::vector<math::ExprId> roots(q.at.begin(), q.at.end());
        roots.push_back(q.rhs);
        for (math::ExprId root : roots)
            for (const math::Read& r : math::reads_with_context(p, root)) {
                const math::Expr& x = p.expr(r.expr);
                if (x.ref != t) continue;
                if (x.kind != math::ExprKind::Load || x.outside != math::Outside::Error) return false;
                ++places;
            }
    }
    return places > 0 && places <= 8;
}

// A program that sets a tensor of one element.
math::Program number_program(const Tensor& t) {
    math::Program p;
    p.name = "number";
    std::vector<math::Sym> shape(t.shape().begin(), t.shape().end());
    const math::TensorId y = p.add_tensor("c", t.dtype(), shape, math::Role::Output);
    p.add_equation(y, std::vector<math::ExprId>(shape.size(), p.integer(0)), p.literal(t.get(0), t.dtype()));
    return p;
}
}  // namespace

namespace {
// n where x is the power n of a float, and products compute it as well: 2, whose product is rounded once as the power is, and of
// types that need not round in between, 3. Else 0.
int whole_power(const math::Program& p, const math::Expr& x) {
    if (x.kind != math::ExprKind::Call || x.fn != math::Fn::Pow || !is_float(x.dtype)) return 0;
    const math::Expr* n = &p.expr(x.args[1]);
    while (n->kind == math::ExprKind::Cast) n = &p.expr(n->args[0]);
    if (n->kind != math::ExprKind::Literal) return 0;
    const double v = is_float(n->dtype) ? n->number : static_cast<double>(n->integer);
    return v == 2 ? 2 : v == 3 && (x.dtype == DType::F32 || x.dtype == DType::F64) ? 3 : 0;
}

math::Program with_products_for_powers(const math::Program& p) {
    bool any = false;
    for (math::ExprId e = 0; e < p.expr_count(); ++e) any |= whole_power(p, p.expr(e)) > 0;
    if (!any) return p;
    math::Program q;
    q.name = p.name, q.doc = p.doc;
    q.tensors = p.tensors;
    q.vars = p.vars;
    q.inputs = p.inputs, q.outputs = p.outputs;
    q.requirements = p.requirements;
    math::Rewriter w{.from = p, .into = q};
    for (math::TensorId t = 0; t < p.tensors.size(); ++t) w.tensors[t] = t;
    for (math::VarId v = 0; v < p.vars.size(); ++v) w.vars[v] = q.index(v), w.bound[v] = v;
    w.replace = [&](math::Rewriter& r, math::ExprId e) -> math::ExprId {
        const int n = whole_power(p, p.expr(e));
        if (n == 0) return math::kNone;
        const math::ExprId x = r(p.expr(e).args[0]), square = q.call(math::Fn::Mul, {x, x});
        return n == 2 ? square : q.call(math::Fn::Mul, {square, x});
    };
    for (const math::Equation& e : p.equations) {
        std::vector<math::ExprId> at;
        for (math::ExprId a : e.at) at.push_back(w(a));
        q.add_equation(e.lhs, std::move(at), w(e.rhs), e.update, e.outside, e.span);
    }
    return q;
}
}  // namespace

Graph normalise(Graph g) {
    const Uses uses(g);
    for (Node& n : g.nodes) {
        if (n.kind != NodeKind::Compute) continue;
        // Outputs without a value get a number of their own, as temporaries that go when nothing reads them.
        auto spare = static_cast<uint32_t>(g.values.size());
        math::Part part{&n.program, n.inputs, n.outputs};  // after its numbers
        std::vector<ValueId> inputs, outputs;
        const std::vector<bool> read = math::mentioned(n.program);
        // Constants of one element become numbers in the expressions: an exponent of 2 is a product then.
        std::vector<math::Program> numbers;
        std::vector<ValueId> numbered;
        const bool computes = std::any_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) { return v != kNone && !g.values[v].constant; });
        numbers.reserve(n.inputs.size());
        for (size_t i = 0; i < n.inputs.size(); ++i) {
            const ValueId v = n.inputs[i];
            if (v == kNone || !read[n.program.inputs[i]] || std::find(inputs.begin(), inputs.end(), v) != inputs.end()) continue;
            const bool once = std::count(n.inputs.begin(), n.inputs.end(), v) == 1;
            const auto& c = g.values[v].constant;
            if (computes && once && c && c->size() == 1 && is_float(c->dtype()) && read_as_number(n.program, n.program.inputs[i])) {
                numbers.push_back(number_program(*c));
                numbered.push_back(v);
            } else {
                inputs.push_back(v);
            }
        }
        for (uint32_t& v : part.outputs) {
            if (v != kNone && uses.any(v)) outputs.push_back(v);
            if (v == kNone) v = spare++;
        }
        std::vector<math::Part> parts;
        for (size_t i = 0; i < numbers.size(); ++i) parts.push_back({&numbers[i], {}, {numbered[i]}});
        parts.push_back(part);
        math::Program merged = math::merge(n.program.name, parts, inputs, outputs);
        merged.doc = n.program.doc;
        math::Program slim = math::inline_temporaries(math::drop_unit_variables(merged)).program;
        n.program = with_products_for_powers(slim);
        n.inputs = std::move(inputs);
        n.outputs = std::move(outputs);
    }
    for (Value& v : g.values) v.producer = kNone;
    for (NodeId i = 0; i < g.nodes.size(); ++i)
        for (ValueId v : g.nodes[i].outputs) g.values[v].producer = i;
    return g;
}

}  // namespace opwright::fuse
