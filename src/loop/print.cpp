#include "loop/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <unordered_map>

namespace opwright::loop {
namespace {

class Printer {
public:
    explicit Printer(const Program& p)
        : p_(p), let_names_(p.lets.size()), local_names_(p.locals.size()), var_names_(p.variables.size()) {}

    std::string expression(ExprId e) {
        std::string text = render(e, 0);
        return text;
    }

    void function(const Function& f) {
        out_ += fmt::format("function {}:\n", f.name);
        ++indent_;
        block(f.body);
        --indent_;
    }

    void header() {
        for (size_t i = 0; i < p_.symbols.size(); ++i) out_ += fmt::format("symbol {}: {}\n", i, p_.symbols[i].name);
        for (const Buffer& b : p_.buffers) {
            switch (b.space) {
                case Space::Param:
                    out_ += fmt::format("param {}: {} {}{}{}{}\n", b.argument, b.name, name(b.dtype),
                                        b.read_only ? " read-only" : "", b.no_alias ? "" : " may-alias",
                                        b.elements != ExprId::none ? fmt::format(" or scratch [{}]", expression(b.elements)) : "");
                    break;
                case Space::Scratch:
                    out_ += fmt::format("scratch {} {}[{}]\n", b.name, name(b.dtype), expression(b.elements));
                    break;
                case Space::Local:
                    out_ += fmt::format("local {} {}[{}]\n", b.name, name(b.dtype), expression(b.elements));
                    break;
            }
        }
    }

    std::string take() { return std::move(out_); }

private:
    void line(const std::string& text) { out_ += fmt::format("{:{}}{}\n", "", 2 * indent_, text); }

    void block(const Block& b) {
        const size_t outer = in_scope_.size();
        for (StmtId s : b) std::visit([&](const auto& x) { statement(x); }, p_.stmt(s));
        in_scope_.resize(outer);
    }

    // The name as it is, or with a number where an enclosing scope has it.
    std::string unique(const std::string& name) {
        std::string result = name;
        for (int i = 2; std::find(in_scope_.begin(), in_scope_.end(), result) != in_scope_.end(); ++i)
            result = fmt::format("{}_{}", name, i);
        in_scope_.push_back(result);
        return result;
    }
    // Names outside of their scope, in programs that do not verify or in parts of programs, are the bare ones.
    static const std::string& either(const std::string& given, const std::string& bare) { return given.empty() ? bare : given; }

    // Names the expressions that the statement uses more than once, on lines of their own, and returns its operands.
    void prepare(std::initializer_list<ExprId> roots) {
        uses_.clear();
        for (ExprId r : roots) count(r);
        for (ExprId r : roots) name_shared(r);
    }

    void count(ExprId e) {
        if (e == ExprId::none || ++uses_[e] > 1) return;
        for (ExprId a : p_.node(e).args) count(a);
    }

    void name_shared(ExprId e) {
        if (e == ExprId::none || temporaries_.count(e)) return;
        for (ExprId a : p_.node(e).args) name_shared(a);
        if (uses_[e] < 2 || is_simple(e)) return;
        const std::string text = render(e, 0);
        const std::string temporary = fmt::format("t{}", ++temporary_count_);
        line(fmt::format("{} := {}", temporary, text));
        temporaries_[e] = temporary;
    }

    bool is_simple(ExprId e) const {
        const Node& n = p_.node(e);
        switch (n.op) {
            case Op::Literal:
            case Op::Symbol:
            case Op::TaskBegin:
            case Op::TaskEnd:
            case Op::Var:
            case Op::Let:
            case Op::Local: return true;
            case Op::Broadcast: return is_simple(n.args[0]);
            default: return false;
        }
    }

    void statement(const For& s) {
        prepare({s.begin, s.end, s.step});
        const std::string begin = render(s.begin, 0), end = render(s.end, 0);
        const size_t outer = in_scope_.size();
        std::string& name = var_names_[static_cast<size_t>(s.var)] = unique(p_.variable(s.var).name);
        std::string text = fmt::format("{} {} in {} .. {}", s.kind == ForKind::Serial ? "for" : "unrolled", name, begin, end);
        const Node& step = p_.node(s.step);
        if (step.op != Op::Literal || step.payload != 1) text += fmt::format(" step {}", render(s.step, 0));
        finish(text + ":");
        nested(s.body);
        in_scope_.resize(outer);
    }
    void statement(const If& s) {
        prepare({s.condition});
        finish(fmt::format("if {}:", render(s.condition, 0)));
        nested(s.then_body);
        if (s.else_body.empty()) return;
        line("else:");
        nested(s.else_body);
    }
    void statement(const Let& s) {
        prepare({s.value});
        const std::string value = render(s.value, 0);
        std::string& name = let_names_[static_cast<size_t>(s.let)] = unique(p_.let(s.let).name);
        finish(fmt::format("let {}: {} = {}", name, to_string(p_.let(s.let).type), value));
    }
    void statement(const Declare& s) {
        prepare({s.value});
        const std::string value = render(s.value, 0);
        const Local& l = p_.local(s.local);
        std::string& name = local_names_[static_cast<size_t>(s.local)] = unique(l.name);
        finish(fmt::format("var {}: {} = {}", name, to_string(l.type), value));
    }
    void statement(const Assign& s) {
        prepare({s.value});
        finish(fmt::format("{} = {}", name_of(s.local), render(s.value, 0)));
    }
    void statement(const Store& s) {
        prepare({s.offset, s.value, s.mask});
        finish(fmt::format("{} {}= {}{}", place(s.buffer, s.offset, p_.type(s.value).lanes, s.stride),
                           s.streaming ? "stream" : "", render(s.value, 0), condition(s.mask)));
    }
    void statement(const Scatter& s) {
        prepare({s.offsets, s.value, s.mask});
        finish(fmt::format("{}[at {}] = {}{}", p_.buffer(s.buffer).name, render(s.offsets, 0), render(s.value, 0),
                           condition(s.mask)));
    }
    void statement(const Prefetch& s) {
        prepare({s.offset});
        finish(fmt::format("prefetch{}{} {}[{}]", s.far ? " far" : "", s.for_write ? " for write" : "", p_.buffer(s.buffer).name,
                           render(s.offset, 0)));
    }
    void statement(const TileZero& s) { line(fmt::format("tile{} = 0", s.tile)); }
    void statement(const TileLoad& s) {
        prepare({s.offset, s.stride});
        finish(fmt::format("tile{} = {}", s.tile, tile_place(s.buffer, s.offset, s.stride)));
    }
    void statement(const TileStore& s) {
        prepare({s.offset, s.stride});
        finish(fmt::format("{} = tile{}", tile_place(s.buffer, s.offset, s.stride), s.tile));
    }
    void statement(const TileDot& s) { line(fmt::format("tile{} += {}(tile{}, tile{})", s.sum, name(s.fn), s.rows, s.columns)); }
    std::string tile_place(BufferId buffer, ExprId offset, ExprId stride) {
        return fmt::format("{}[{} : {}x{} by {}]", p_.buffer(buffer).name, render(offset, 0), kTileRows, kTileWords, render(stride, 0));
    }
    void statement(const SetError& s) {
        prepare({s.code});
        finish(fmt::format("error {}", render(s.code, 0)));
    }
    void statement(const Comment& s) { line("# " + s.text); }

    const std::string& name_of(LocalId l) const { return either(local_names_[static_cast<size_t>(l)], p_.local(l).name); }

    void nested(const Block& b) {
        ++indent_;
        if (b.empty()) line("pass");
        block(b);
        --indent_;
    }

    void finish(const std::string& text) {
        line(text);
        temporaries_.clear();
    }

    std::string condition(ExprId mask) { return mask == ExprId::none ? "" : fmt::format(" where {}", render(mask, 0)); }

    // "x[i]", "x[i : 16]" or "x[i : 16 by 2]".
    std::string place(BufferId b, ExprId offset, int lanes, int64_t stride) {
        std::string text = fmt::format("{}[{}", p_.buffer(b).name, render(offset, 0));
        if (lanes > 1) text += fmt::format(" : {}", lanes);
        if (stride != 1) text += fmt::format(" by {}", stride);
        return text + "]";
    }

    std::string literal(const Node& n) const {
        if (n.type.dtype == DType::Bool) return n.payload ? "true" : "false";
        if (is_unsigned_int(n.type.dtype)) return fmt::format("{}", static_cast<uint64_t>(n.payload));
        if (!is_float(n.type.dtype)) return fmt::format("{}", n.payload);
        const double v = std::bit_cast<double>(n.payload);
        std::string text = n.type.dtype == DType::F32 ? fmt::format("{}", static_cast<float>(v)) : fmt::format("{}", v);
        if (text.find_first_of(".en") == std::string::npos) text += ".0";
        return text;
    }

    std::string call(std::string_view f, const Node& n) {
        std::string text = fmt::format("{}(", f);
        for (int i = 0; i < n.arg_count(); ++i) text += fmt::format("{}{}", i ? ", " : "", render(n.args[i], 0));
        return text + ")";
    }

    static std::string_view infix(BinaryFn f, int* level) {
        switch (f) {
            case BinaryFn::Add: *level = 4; return "+";
            case BinaryFn::Sub: *level = 4; return "-";
            case BinaryFn::Mul: *level = 5; return "*";
            case BinaryFn::Div: *level = 5; return "/";
            case BinaryFn::FloorDiv: *level = 5; return "//";
            case BinaryFn::Mod: *level = 5; return "%";
            case BinaryFn::Lt: *level = 2; return "<";
            case BinaryFn::Le: *level = 2; return "<=";
            case BinaryFn::Gt: *level = 2; return ">";
            case BinaryFn::Ge: *level = 2; return ">=";
            case BinaryFn::Eq: *level = 2; return "==";
            case BinaryFn::Ne: *level = 2; return "!=";
            case BinaryFn::And: *level = 1; return "&";
            case BinaryFn::Or: *level = 1; return "|";
            default: *level = 0; return {};
        }
    }

    // The text of e, in parentheses where it binds weaker than `context`.
    std::string render(ExprId e, int context) {
        if (e == ExprId::none) return "none";
        if (auto t = temporaries_.find(e); t != temporaries_.end()) return t->second;
        const Node& n = p_.node(e);
        switch (n.op) {
            case Op::Literal: return literal(n);
            case Op::Symbol: return p_.symbol(static_cast<SymbolId>(n.payload)).name;
            case Op::TaskBegin: return "task_begin";
            case Op::TaskEnd: return "task_end";
            case Op::Var: return either(var_names_[static_cast<size_t>(n.payload)], p_.variable(static_cast<VarId>(n.payload)).name);
            case Op::Let: return either(let_names_[static_cast<size_t>(n.payload)], p_.let(static_cast<LetId>(n.payload)).name);
            case Op::Local: return name_of(static_cast<LocalId>(n.payload));
            case Op::Broadcast: return render(n.args[0], context);
            case Op::Ramp: return fmt::format("ramp({}, {}, {})", render(n.args[0], 0), n.payload, n.type.lanes);
            case Op::FirstLanes: return fmt::format("first_lanes({}, {})", render(n.args[0], 0), n.type.lanes);
            case Op::Unary: return call(name(n.unary()), n);
            case Op::Binary: {
                int level = 0;
                const std::string_view symbol = infix(n.binary(), &level);
                if (symbol.empty()) return call(fmt::format("{}{}", name(n.binary()), n.payload ? "_of_numbers" : ""), n);
                const std::string text =
                    fmt::format("{} {} {}", render(n.args[0], level), symbol, render(n.args[1], level + 1));
                return level < context ? "(" + text + ")" : text;
            }
            case Op::Select: return call("select", n);
            case Op::Fma: return call("fma", n);
            case Op::MulAdd: return call("mul_add", n);
            case Op::Dot: return call(name(n.dot()), n);
            case Op::Scale: return call("scale", n);
            case Op::Cast: return call(n.payload ? "bf16_of_normal" : name(n.type.dtype), n);
            case Op::Wrap: return call(fmt::format("wrap_{}", name(n.type.dtype)), n);
            case Op::Bitcast: {
                const bool same = p_.type(n.args[0]).lanes == n.type.lanes;
                return call(fmt::format("bits_{}", same ? std::string(name(n.type.dtype)) : to_string(n.type)), n);
            }
            case Op::Load: {
                std::string text = place(n.buffer, n.args[0], n.type.lanes, n.payload);
                if (n.args[1] == ExprId::none) return text;
                return fmt::format("({} where {} else {})", text, render(n.args[1], 0), render(n.args[2], 0));
            }
            case Op::Gather: {
                std::string text = fmt::format("{}[at {}]", p_.buffer(n.buffer).name, render(n.args[0], 0));
                if (n.args[1] == ExprId::none) return text;
                return fmt::format("({} where {} else {})", text, render(n.args[1], 0), render(n.args[2], 0));
            }
            case Op::ReduceLanes:
                return call(fmt::format("lanes_{}{}", name(n.binary()), n.payload ? "_of_numbers" : ""), n);
            case Op::Extract: return fmt::format("{}.{}", render(n.args[0], 9), n.payload);
            case Op::Insert:
                return fmt::format("insert({}, {}, {})", render(n.args[0], 0), n.payload, render(n.args[1], 0));
            case Op::Shuffle: {
                std::string text = fmt::format("permute({}", render(n.args[0], 0));
                if (n.args[1] != ExprId::none) text += fmt::format(", {}", render(n.args[1], 0));
                text += "; ";
                const std::vector<int>& lanes = p_.shuffle_lanes(n.payload);
                for (size_t i = 0; i < lanes.size(); ++i) text += fmt::format("{}{}", i ? " " : "", lanes[i]);
                return text + ")";
            }
            case Op::Lookup: {
                std::string text = fmt::format("lookup({};", render(n.args[0], 0));
                for (float x : p_.lookup_entries(n.payload)) text += fmt::format(" {}", x);
                return text + ")";
            }
        }
        return {};
    }

    const Program& p_;
    std::string out_;
    int indent_ = 0, temporary_count_ = 0;
    std::vector<std::string> let_names_, local_names_, var_names_, in_scope_;
    std::unordered_map<ExprId, int> uses_;
    std::unordered_map<ExprId, std::string> temporaries_;
};

}  // namespace

std::string print(const Program& p) {
    Printer printer(p);
    printer.header();
    for (const Function& f : p.functions) printer.function(f);
    return printer.take();
}

std::string print(const Program& p, const Function& f) {
    Printer printer(p);
    printer.function(f);
    return printer.take();
}

std::string print(const Program& p, ExprId e) { return Printer(p).expression(e); }

}  // namespace opwright::loop
