#include "loop/verify.h"

#include <fmt/format.h>

#include <unordered_set>

#include "loop/print.h"

namespace opwright::loop {
namespace {

constexpr Type kIndex{DType::I64, 1};
constexpr int64_t kMostUnrolled = 4096;

class Verifier {
public:
    explicit Verifier(const Program& p) : p_(p) {}

    std::vector<std::string> run() {
        for (size_t i = 0; i < p_.node_count(); ++i) node(static_cast<ExprId>(i));
        where_ = "the buffers";
        for (const Buffer& b : p_.buffers) buffer(b);
        if (!faults_.empty()) return std::move(faults_);  // statements are checked over sound expressions only
        std::unordered_set<std::string> names;
        for (const Function& f : p_.functions) {
            where_ = fmt::format("function '{}'", f.name);
            if (f.name.empty()) fault("has no name");
            if (!names.insert(f.name).second) fault("is defined twice");
            block(f.body);
        }
        return std::move(faults_);
    }

private:
    void fault(const std::string& what) { faults_.push_back(fmt::format("{}: {}.", where_, what)); }

    bool known(ExprId e) const { return static_cast<size_t>(e) < p_.node_count(); }
    template <class Id, class Vector>
    static bool in(Id id, const Vector& v) { return static_cast<size_t>(id) < v.size(); }

    // ---- expressions, each once, operands before users ----
    void node(ExprId e) {
        const Node& n = p_.node(e);
        where_ = fmt::format("expression {}", static_cast<uint32_t>(e));
        int count = 0;
        for (ExprId a : n.args) {
            if (a == ExprId::none) continue;
            ++count;
            if (static_cast<uint32_t>(a) >= static_cast<uint32_t>(e)) return fault("uses an operand made after it");
        }
        const int lanes = n.type.lanes;
        if (lanes < 1 || lanes > 256 || (lanes & (lanes - 1)) != 0)
            return fault(fmt::format("has {} lanes, which is no power of two up to 256", lanes));
        auto type = [&](int i) { return p_.type(n.args[i]); };
        auto need = [&](int want) {
            if (count != want) fault(fmt::format("has {} operands in place of {}", count, want));
            return count == want;
        };
        auto expect = [&](bool sound) {
            if (!sound) fault(fmt::format("has operands whose types do not fit: {}", describe(n)));
        };
        switch (n.op) {
            case Op::Literal:
                if (need(0) && lanes != 1) fault("is a literal of several lanes");
                return;
            case Op::Symbol: return expect(need(0) && n.type == kIndex && in(n.payload, p_.symbols));
            case Op::TaskBegin:
            case Op::TaskEnd: return expect(need(0) && n.type == kIndex);
            case Op::Var: return expect(need(0) && n.type == kIndex && in(n.payload, p_.variables));
            case Op::Let:
                return expect(need(0) && in(n.payload, p_.lets) && p_.let(static_cast<LetId>(n.payload)).type == n.type);
            case Op::Local:
                return expect(need(0) && in(n.payload, p_.locals) &&
                              p_.local(static_cast<LocalId>(n.payload)).type == n.type);
            case Op::Broadcast: return expect(need(1) && type(0) == n.type.with_lanes(1) && lanes > 1);
            case Op::Ramp:
                return expect(need(1) && type(0) == n.type.with_lanes(1) && lanes > 1 && is_int(n.type.dtype));
            case Op::FirstLanes: return expect(need(1) && type(0) == kIndex && n.type.dtype == DType::Bool && lanes > 1);
            case Op::Unary: return expect(need(1) && unary_fits(n.unary(), type(0), n.type));
            case Op::Binary:
                return expect(need(2) && type(0) == type(1) && binary_fits(n.binary(), type(0), n.type) && of_numbers(n));
            case Op::Select:
                return expect(need(3) && type(0) == n.type.with(DType::Bool) && type(1) == n.type && type(2) == n.type);
            case Op::Fma:
            case Op::MulAdd:
                return expect(need(3) && type(0) == n.type && type(1) == n.type && type(2) == n.type &&
                              computes(n.type.dtype));
            case Op::Dot:
                return expect(need(3) && n.fn <= static_cast<uint8_t>(DotFn::U8S8x4) && n.type.dtype == sum_type(n.dot()) &&
                              type(0) == n.type && type(1) == n.type.with(DType::I32) && type(2) == type(1));
            case Op::Scale: return expect(need(2) && type(0) == n.type && type(1) == n.type && computes(n.type.dtype));
            case Op::Cast:
                return expect(need(1) && type(0).lanes == lanes &&
                              (n.payload == 0 || (n.payload == 1 && type(0).dtype == DType::F32 && n.type.dtype == DType::BF16)));
            case Op::Wrap:
                return expect(need(1) && type(0).lanes == lanes && !is_float(type(0).dtype) && !is_float(n.type.dtype));
            case Op::Bitcast:
                return expect(need(1) && type(0).lanes * size_of(type(0).dtype) == n.type.lanes * size_of(n.type.dtype) &&
                              type(0).dtype != DType::Bool && n.type.dtype != DType::Bool);
            case Op::Load:
                return expect((count == 1 || need(3)) && in(n.buffer, p_.buffers) && type(0) == kIndex &&
                              p_.buffer(n.buffer).dtype == n.type.dtype && masked(n) && n.payload != 0 &&
                              (lanes > 1 || n.payload == 1));
            case Op::Gather:
                return expect((count == 1 || need(3)) && in(n.buffer, p_.buffers) && lanes > 1 &&
                              type(0).lanes == lanes && is_offset(type(0).dtype) &&
                              p_.buffer(n.buffer).dtype == n.type.dtype && masked(n));
            case Op::ReduceLanes:
                return expect(need(1) && type(0).is_vector() && type(0).with_lanes(1) == n.type &&
                              folds(n.binary(), n.type.dtype) && of_numbers(n));
            case Op::Extract:
                return expect(need(1) && type(0).with_lanes(1) == n.type && n.payload >= 0 && n.payload < type(0).lanes);
            case Op::Insert:
                return expect(need(2) && type(0) == n.type && type(1) == n.type.with_lanes(1) && n.payload >= 0 &&
                              n.payload < lanes);
            case Op::Shuffle: return expect((count == 1 || need(2)) && shuffle_fits(n));
            case Op::Lookup: return expect(need(1) && n.type.dtype == DType::F32 && type(0) == n.type.with(DType::I32));
        }
    }

    std::string describe(const Node& n) const {
        std::string text = "op " + std::to_string(static_cast<int>(n.op)) + " to " + to_string(n.type) + " from";
        for (ExprId a : n.args)
            if (a != ExprId::none) text += " " + to_string(p_.type(a));
        return text;
    }

    static bool computes(DType t) { return t == DType::F32 || t == DType::F64; }
    static bool is_offset(DType t) { return t == DType::I64 || t == DType::I32; }

    static bool unary_fits(UnaryFn f, Type from, Type to) {
        if (f == UnaryFn::IsNan || f == UnaryFn::IsInf) return computes(from.dtype) && to == from.with(DType::Bool);
        if (to != from) return false;
        if (f == UnaryFn::Not) return is_int(from.dtype) || from.dtype == DType::Bool;
        if (f == UnaryFn::Neg || f == UnaryFn::Abs || f == UnaryFn::Sign) return computes(from.dtype) || is_int(from.dtype);
        return computes(from.dtype);
    }

    static bool binary_fits(BinaryFn f, Type from, Type to) {
        const DType t = from.dtype;
        if (to != (is_comparison(f) ? from.with(DType::Bool) : from)) return false;
        switch (f) {
            case BinaryFn::And:
            case BinaryFn::Or:
            case BinaryFn::Xor: return is_int(t) || t == DType::Bool;
            case BinaryFn::Shl:
            case BinaryFn::Shr: return is_int(t);
            case BinaryFn::Atan2: return computes(t);
            case BinaryFn::Eq:
            case BinaryFn::Ne: return is_int(t) || computes(t) || t == DType::Bool;
            default: return is_int(t) || computes(t);
        }
    }

    static bool folds(BinaryFn f, DType t) {
        switch (f) {
            case BinaryFn::Add:
            case BinaryFn::Mul:
            case BinaryFn::Min:
            case BinaryFn::Max: return is_int(t) || computes(t);
            case BinaryFn::And:
            case BinaryFn::Or: return is_int(t) || t == DType::Bool;
            default: return false;
        }
    }

    static bool of_numbers(const Node& n) {
        const bool extreme = n.binary() == BinaryFn::Min || n.binary() == BinaryFn::Max;
        return n.payload == 0 || (n.payload == 1 && extreme && is_float(n.type.dtype));
    }

    bool masked(const Node& n) const {
        return n.args[1] == ExprId::none || (p_.type(n.args[1]) == n.type.with(DType::Bool) && p_.type(n.args[2]) == n.type);
    }

    bool shuffle_fits(const Node& n) const {
        const Type from = p_.type(n.args[0]);
        int total = from.lanes;
        if (n.args[1] != ExprId::none) {
            if (p_.type(n.args[1]) != from) return false;
            total *= 2;
        }
        const std::vector<int>& lanes = p_.shuffle_lanes(n.payload);
        for (int l : lanes)
            if (l < 0 || l >= total) return false;
        return from.is_vector() && from.with_lanes(n.type.lanes) == n.type && lanes.size() == n.type.lanes;
    }

    void buffer(const Buffer& b) {
        if (b.space == Space::Param && b.elements == ExprId::none) return;
        if (!known(b.elements) || p_.type(b.elements) != kIndex) return fault(fmt::format("'{}' has no extent", b.name));
        if (b.space == Space::Local) {
            const Node& n = p_.node(b.elements);
            if (n.op != Op::Literal || n.payload < 0 || n.payload * static_cast<int64_t>(size_of(b.dtype)) > 65536)
                fault(fmt::format("local '{}' needs a literal extent of at most 64 KiB", b.name));
        } else if (!symbolic(b.elements)) {
            fault(fmt::format("the extent of scratch '{}' may use only symbols and literals", b.name));
        }
    }

    bool symbolic(ExprId e) const {
        const Node& n = p_.node(e);
        if (n.op == Op::Literal || n.op == Op::Symbol) return true;
        if (n.op != Op::Unary && n.op != Op::Binary && n.op != Op::Select) return false;
        for (ExprId a : n.args)
            if (a != ExprId::none && !symbolic(a)) return false;
        return true;
    }

    // ---- statements ----
    void block(const Block& b) {
        const size_t vars = vars_.size(), lets = lets_.size(), locals = locals_.size();
        for (StmtId s : b) {
            if (!in(s, p_.stmts)) {
                fault("refers to a statement that does not exist");
                continue;
            }
            checked_.clear();
            std::visit([&](const auto& x) { statement(x); }, p_.stmt(s));
        }
        vars_.resize(vars), lets_.resize(lets), locals_.resize(locals);
    }

    template <class T>
    static bool has(const std::vector<T>& v, T x) {
        for (T y : v)
            if (x == y) return true;
        return false;
    }

    // Everything that e reads must be in scope. Returns its type, or nothing when e is not an expression.
    bool use(ExprId e, const char* what) {
        if (!known(e)) {
            fault(fmt::format("{} is missing", what));
            return false;
        }
        if (!checked_.insert(e).second) return true;
        const Node& n = p_.node(e);
        const auto id = static_cast<uint32_t>(n.payload);
        if (n.op == Op::Var && !has(vars_, id))
            fault(fmt::format("{} uses loop variable '{}' outside of its loop", what, p_.variables[id].name));
        if (n.op == Op::Let && !has(lets_, id))
            fault(fmt::format("{} uses '{}' where it is not bound", what, p_.lets[id].name));
        if (n.op == Op::Local && !has(locals_, id))
            fault(fmt::format("{} uses local '{}' where it is not declared", what, p_.locals[id].name));
        for (ExprId a : n.args)
            if (a != ExprId::none) use(a, what);
        return true;
    }

    void expect_type(ExprId e, Type t, const char* what) {
        if (use(e, what) && p_.type(e) != t)
            fault(fmt::format("{} is {} where {} is needed", what, to_string(p_.type(e)), to_string(t)));
    }

    void mask(ExprId m, Type value) {
        if (m != ExprId::none) expect_type(m, value.with(DType::Bool), "the mask of a store");
    }

    void statement(const For& s) {
        expect_type(s.begin, kIndex, "a loop's begin");
        expect_type(s.end, kIndex, "a loop's end");
        expect_type(s.step, kIndex, "a loop's step");
        if (!in(s.var, p_.variables)) return fault("has a loop without a variable");
        const std::string& name = p_.variable(s.var).name;
        if (known(s.step) && p_.node(s.step).op == Op::Literal && p_.node(s.step).payload <= 0)
            fault(fmt::format("the step of loop '{}' is not positive", name));
        if (s.kind == ForKind::Unrolled && known(s.begin) && known(s.end) && known(s.step)) {
            const Node &b = p_.node(s.begin), &e = p_.node(s.end), &t = p_.node(s.step);
            if (b.op != Op::Literal || e.op != Op::Literal || t.op != Op::Literal)
                fault(fmt::format("unrolled loop '{}' needs literal bounds and step", name));
            else if (t.payload > 0 && (e.payload - b.payload) / t.payload > kMostUnrolled)
                fault(fmt::format("unrolled loop '{}' repeats more than {} times", name, kMostUnrolled));
        }
        vars_.push_back(static_cast<uint32_t>(s.var));
        block(s.body);
        vars_.pop_back();
    }
    void statement(const If& s) {
        expect_type(s.condition, {DType::Bool, 1}, "a condition");
        block(s.then_body);
        block(s.else_body);
    }
    void statement(const Let& s) {
        if (!in(s.let, p_.lets)) return fault("binds a let that does not exist");
        expect_type(s.value, p_.let(s.let).type, "a let's value");
        lets_.push_back(static_cast<uint32_t>(s.let));
    }
    void statement(const Declare& s) {
        if (!in(s.local, p_.locals)) return fault("declares a local that does not exist");
        expect_type(s.value, p_.local(s.local).type, "a local's first value");
        locals_.push_back(static_cast<uint32_t>(s.local));
    }
    void statement(const Assign& s) {
        if (!in(s.local, p_.locals)) return fault("assigns a local that does not exist");
        if (!has(locals_, static_cast<uint32_t>(s.local)))
            fault(fmt::format("assigns local '{}' where it is not declared", p_.local(s.local).name));
        expect_type(s.value, p_.local(s.local).type, "a local's new value");
    }
    bool written(BufferId b) {
        if (!in(b, p_.buffers)) {
            fault("stores to a buffer that does not exist");
            return false;
        }
        if (p_.buffer(b).read_only) fault(fmt::format("stores to '{}', which is read-only", p_.buffer(b).name));
        return true;
    }
    void statement(const Store& s) {
        expect_type(s.offset, kIndex, "the offset of a store");
        if (!written(s.buffer) || !use(s.value, "a stored value")) return;
        const Type t = p_.type(s.value);
        if (t.dtype != p_.buffer(s.buffer).dtype)
            fault(fmt::format("stores {} to '{}' of {}", to_string(t), p_.buffer(s.buffer).name,
                              name(p_.buffer(s.buffer).dtype)));
        if (s.streaming && (s.stride != 1 || s.mask != ExprId::none || !t.is_vector()))
            fault(fmt::format("streams to '{}' other than whole vectors side by side", p_.buffer(s.buffer).name));
        if (s.stride == 0) fault(fmt::format("stores to '{}' with stride 0", p_.buffer(s.buffer).name));
        mask(s.mask, t);
    }
    void statement(const Scatter& s) {
        if (!written(s.buffer) || !use(s.value, "a stored value") || !use(s.offsets, "the offsets of a scatter")) return;
        const Type t = p_.type(s.value), o = p_.type(s.offsets);
        if (t.dtype != p_.buffer(s.buffer).dtype)
            fault(fmt::format("stores {} to '{}' of {}", to_string(t), p_.buffer(s.buffer).name,
                              name(p_.buffer(s.buffer).dtype)));
        if (o.lanes != t.lanes || !is_offset(o.dtype))
            fault(fmt::format("scatters {} to offsets of {}", to_string(t), to_string(o)));
        mask(s.mask, t);
    }
    void statement(const Prefetch& s) {
        if (!in(s.buffer, p_.buffers)) fault("prefetches a buffer that does not exist");
        expect_type(s.offset, kIndex, "the offset of a prefetch");
    }
    void tile(int t) {
        if (t < 0 || t >= kTiles) fault(fmt::format("uses tile {} of {}", t, kTiles));
    }
    void tile_in_memory(int t, BufferId buffer, ExprId offset, ExprId stride) {
        tile(t);
        expect_type(offset, kIndex, "the offset of a tile");
        expect_type(stride, kIndex, "the stride of a tile");
        if (!in(buffer, p_.buffers)) return fault("moves a tile of a buffer that does not exist");
        if (const DType d = p_.buffer(buffer).dtype; size_of(d) != 4 || d == DType::Bool)
            fault(fmt::format("moves a tile of '{}' of {}", p_.buffer(buffer).name, name(d)));
    }
    void statement(const TileZero& s) { tile(s.tile); }
    void statement(const TileLoad& s) { tile_in_memory(s.tile, s.buffer, s.offset, s.stride); }
    void statement(const TileStore& s) {
        if (written(s.buffer)) tile_in_memory(s.tile, s.buffer, s.offset, s.stride);
    }
    void statement(const TileDot& s) {
        for (int t : {s.sum, s.rows, s.columns}) tile(t);
        if (s.sum == s.rows || s.sum == s.columns || s.rows == s.columns) fault("multiplies a tile with itself");
    }
    void statement(const SetError& s) { expect_type(s.code, kIndex, "an error code"); }
    void statement(const Comment&) {}

    const Program& p_;
    std::string where_;
    std::vector<std::string> faults_;
    std::vector<uint32_t> vars_, lets_, locals_;
    std::unordered_set<ExprId> checked_;  // expressions whose scope this statement has checked
};

}  // namespace

std::vector<std::string> verify(const Program& p) { return Verifier(p).run(); }

}  // namespace opwright::loop
