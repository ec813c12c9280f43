#include "loop/content.h"

#include <bit>

namespace opwright::loop {
namespace {

class Writer {
public:
    template <class T>
        requires std::is_integral_v<T> || std::is_enum_v<T>
    void number(T v) {
        auto u = static_cast<uint64_t>(v);
        while (u >= 0x80) {  // 7 bits a byte, the lowest first
            out_ += static_cast<char>(u | 0x80);
            u >>= 7;
        }
        out_ += static_cast<char>(u);
    }
    void text(const std::string& s) {
        number(s.size());
        out_ += s;
    }
    void block(const Block& b) {
        number(b.size());
        for (StmtId s : b) number(s);
    }

    void operator()(const For& s) { list(s.var, s.begin, s.end, s.step, s.kind), block(s.body); }
    void operator()(const If& s) { number(s.condition), block(s.then_body), block(s.else_body); }
    void operator()(const Let& s) { list(s.let, s.value); }
    void operator()(const Declare& s) { list(s.local, s.value); }
    void operator()(const Assign& s) { list(s.local, s.value); }
    void operator()(const Store& s) { list(s.buffer, s.offset, s.value, s.mask, s.stride, s.streaming); }
    void operator()(const Scatter& s) { list(s.buffer, s.offsets, s.value, s.mask); }
    void operator()(const Prefetch& s) { list(s.buffer, s.offset, s.for_write, s.far); }
    void operator()(const TileZero& s) { number(s.tile); }
    void operator()(const TileLoad& s) { list(s.tile, s.buffer, s.offset, s.stride); }
    void operator()(const TileStore& s) { list(s.tile, s.buffer, s.offset, s.stride); }
    void operator()(const TileDot& s) { list(s.fn, s.sum, s.rows, s.columns); }
    void operator()(const SetError& s) { number(s.code); }
    void operator()(const Comment&) {}  // says nothing to a machine

    template <class... T>
    void list(T... v) { (number(v), ...); }

    std::string take() { return std::move(out_); }

private:
    std::string out_;
};

}  // namespace

// Names of functions are part of the content, as they are looked up; those of buffers, variables and lets are not.
std::string content(const Program& p) {
    Writer w;
    w.number(p.node_count());
    for (size_t i = 0; i < p.node_count(); ++i) {
        const Node& n = p.node(static_cast<ExprId>(i));
        w.list(n.op, n.fn, n.type.dtype, n.type.lanes, n.buffer, n.args[0], n.args[1], n.args[2], n.payload);
        if (n.op == Op::Shuffle)
            for (int lane : p.shuffle_lanes(n.payload)) w.number(lane);
        if (n.op == Op::Lookup)
            for (float x : p.lookup_entries(n.payload)) w.number(std::bit_cast<uint32_t>(x));
    }
    w.number(p.buffers.size());
    for (const Buffer& b : p.buffers) w.list(b.dtype, b.space, b.argument, b.elements, b.read_only, b.no_alias);
    w.list(p.symbols.size(), p.variables.size(), p.lets.size(), p.locals.size());
    for (const Local& l : p.locals) w.list(l.type.dtype, l.type.lanes);
    w.number(p.stmts.size());
    for (const Stmt& s : p.stmts) {
        w.number(s.index());
        std::visit(w, s);
    }
    w.number((p.plain_addresses ? 1 : 0) + (p.plain_indices ? 2 : 0));
    w.number(p.functions.size());
    for (const Function& f : p.functions) w.text(f.name), w.block(f.body);
    return w.take();
}

}  // namespace opwright::loop
