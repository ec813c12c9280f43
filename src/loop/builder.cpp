#include "loop/builder.h"

#include <fmt/format.h>

#include <bit>
#include <stdexcept>

namespace opwright::loop {
namespace {

[[noreturn]] void misuse(const std::string& what) { throw std::logic_error("loop IR: " + what); }

BufferId next_buffer(Program& p, Buffer b) {
    p.buffers.push_back(std::move(b));
    return static_cast<BufferId>(p.buffers.size() - 1);
}

Expr pass_through(Expr mask, Expr otherwise, Program& p, Type t) {
    if (!mask) return {};
    if (!otherwise) return broadcast(literal_int(p, t.dtype, 0), t.lanes);
    if (otherwise.type() == t.with_lanes(1)) return broadcast(otherwise, t.lanes);
    return otherwise;
}

// True for a mask known to be all true or all false.
bool constant_mask(Expr mask, bool* value) {
    int64_t v = 0;
    if (!mask || !is_literal(mask, &v)) return false;
    *value = v != 0;
    return true;
}

}  // namespace

Expr Builder::symbol(std::string_view name) {
    size_t i = 0;
    while (i < program_.symbols.size() && program_.symbols[i].name != name) ++i;
    if (i == program_.symbols.size()) program_.symbols.push_back({std::string(name)});
    return program_.intern({.op = Op::Symbol, .type = {DType::I64, 1}, .payload = static_cast<int64_t>(i)});
}

BufferId Builder::param(std::string name, DType t, uint32_t argument, Access access, bool no_alias) {
    return next_buffer(program_, {.name = std::move(name), .dtype = t, .space = Space::Param, .argument = argument,
                                  .read_only = access == Access::Read, .no_alias = no_alias});
}

BufferId Builder::scratch(std::string name, DType t, Expr elements) {
    return next_buffer(program_, {.name = std::move(name), .dtype = t, .space = Space::Scratch, .elements = elements});
}

BufferId Builder::param_or_scratch(std::string name, DType t, uint32_t argument, Expr elements) {
    return next_buffer(program_, {.name = std::move(name), .dtype = t, .space = Space::Param, .argument = argument, .elements = elements});
}

BufferId Builder::local_buffer(std::string name, DType t, int64_t elements) {
    return next_buffer(program_, {.name = std::move(name), .dtype = t, .space = Space::Local, .elements = i64(elements)});
}

Expr Builder::task_begin() { return program_.intern({.op = Op::TaskBegin, .type = {DType::I64, 1}}); }
Expr Builder::task_end() { return program_.intern({.op = Op::TaskEnd, .type = {DType::I64, 1}}); }

void Builder::place(Stmt s) {
    if (open_.empty()) misuse("a statement outside of any function");
    const StmtId id = program_.add(std::move(s));
    open_.back()->push_back(id);
}

Block Builder::capture(const std::function<void()>& body) {
    Block block;
    open_.push_back(&block);
    if (body) body();
    open_.pop_back();
    return block;
}

void Builder::function(std::string name, const std::function<void()>& body) {
    if (!open_.empty()) misuse(fmt::format("function '{}' opened inside another", name));
    Block block = capture(body);
    program_.functions.push_back({std::move(name), std::move(block)});
}

Expr Builder::load(BufferId buffer, Expr offset, int lanes, Expr mask, Expr otherwise) {
    return load_strided(buffer, offset, 1, lanes, mask, otherwise);
}

Expr Builder::load_strided(BufferId buffer, Expr offset, int64_t stride, int lanes, Expr mask, Expr otherwise) {
    const Type t{program_.buffer(buffer).dtype, static_cast<uint16_t>(lanes)};
    otherwise = pass_through(mask, otherwise, program_, t);
    if (bool m; constant_mask(mask, &m)) {
        if (!m) return otherwise;
        mask = otherwise = {};
    }
    if (stride == 0 && lanes > 1) {
        if (!mask) return broadcast(load(buffer, offset), lanes);
        Expr any = reduce_lanes(BinaryFn::Or, mask);
        Expr one = load_strided(buffer, offset, 1, 1, any, literal_int(program_, t.dtype, 0));
        return select(mask, broadcast(one, lanes), otherwise);
    }
    return program_.intern({.op = Op::Load, .type = t, .buffer = buffer, .args = {offset, mask, otherwise},
                            .payload = lanes == 1 ? 1 : stride});
}

Expr Builder::gather(BufferId buffer, Expr offsets, Expr mask, Expr otherwise) {
    if (!offsets.type().is_vector()) return load(buffer, offsets, 1, mask, otherwise);
    const Type t = offsets.type().with(program_.buffer(buffer).dtype);
    otherwise = pass_through(mask, otherwise, program_, t);
    if (bool m; constant_mask(mask, &m)) {
        if (!m) return otherwise;
        mask = otherwise = {};
    }
    const Node n = program_.node(offsets);
    if (n.op == Op::Ramp && n.type.dtype == DType::I64)
        return load_strided(buffer, {&program_, n.args[0]}, n.payload, t.lanes, mask, otherwise);
    return program_.intern({.op = Op::Gather, .type = t, .buffer = buffer, .args = {offsets, mask, otherwise}});
}

void Builder::store(BufferId buffer, Expr offset, Expr value, Expr mask) {
    store_strided(buffer, offset, 1, value, mask);
}

void Builder::store_strided(BufferId buffer, Expr offset, int64_t stride, Expr value, Expr mask) {
    if (bool m; constant_mask(mask, &m)) {
        if (!m) return;
        mask = {};
    }
    place(Store{buffer, offset, value, mask, stride});
}

void Builder::store_streaming(BufferId buffer, Expr offset, Expr value) {
    place(Store{buffer, offset, value, ExprId::none, 1, true});
}

void Builder::scatter(BufferId buffer, Expr offsets, Expr value, Expr mask) {
    if (!offsets.type().is_vector()) return store(buffer, offsets, value, mask);
    const Node n = program_.node(offsets);
    if (n.op == Op::Ramp && n.type.dtype == DType::I64 && n.payload != 0)
        return store_strided(buffer, {&program_, n.args[0]}, n.payload, value, mask);
    place(Scatter{buffer, offsets, value, mask});
}

void Builder::prefetch(BufferId buffer, Expr offset, bool for_write, bool far) {
    place(Prefetch{buffer, offset, for_write, far});
}

void Builder::tile_zero(int tile) { place(TileZero{tile}); }
void Builder::tile_load(int tile, BufferId buffer, Expr offset, Expr stride) { place(TileLoad{tile, buffer, offset, stride}); }
void Builder::tile_store(int tile, BufferId buffer, Expr offset, Expr stride) { place(TileStore{tile, buffer, offset, stride}); }
void Builder::tile_dot(TileFn f, int sum, int rows, int columns) { place(TileDot{f, sum, rows, columns}); }

Expr Builder::let(std::string name, Expr value) {
    const Node& n = program_.node(value);
    if (n.op == Op::Literal || n.op == Op::Symbol || n.op == Op::Var || n.op == Op::Let) return value;
    program_.lets.push_back({std::move(name), value.type()});
    const auto id = static_cast<LetId>(program_.lets.size() - 1);
    place(Let{id, value});
    return program_.intern({.op = Op::Let, .type = value.type(), .payload = static_cast<int64_t>(id)});
}

LocalRef Builder::local(std::string name, Expr initial) {
    program_.locals.push_back({std::move(name), initial.type()});
    const auto id = static_cast<LocalId>(program_.locals.size() - 1);
    place(Declare{id, initial});
    return {id};
}

Expr Builder::get(LocalRef l) {
    return program_.intern({.op = Op::Local, .type = program_.local(l.id).type, .payload = static_cast<int64_t>(l.id)});
}

void Builder::set(LocalRef l, Expr value) { place(Assign{l.id, value}); }

void Builder::loop(std::string name, Expr begin, Expr end, Expr step, const Body& body) {
    program_.variables.push_back({std::move(name)});
    const auto var = static_cast<VarId>(program_.variables.size() - 1);
    Expr v = program_.intern({.op = Op::Var, .type = {DType::I64, 1}, .payload = static_cast<int64_t>(var)});
    Block block = capture([&] { body(v); });
    place(For{var, begin, end, step, ForKind::Serial, std::move(block)});
}

void Builder::loop(std::string name, Expr begin, Expr end, int64_t step, const Body& body) {
    loop(std::move(name), begin, end, i64(step), body);
}

void Builder::loop(std::string name, int64_t begin, Expr end, int64_t step, const Body& body) {
    loop(std::move(name), i64(begin), end, i64(step), body);
}

void Builder::unrolled(std::string name, int64_t begin, int64_t end, int64_t step, const Body& body) {
    program_.variables.push_back({std::move(name)});
    const auto var = static_cast<VarId>(program_.variables.size() - 1);
    Expr v = program_.intern({.op = Op::Var, .type = {DType::I64, 1}, .payload = static_cast<int64_t>(var)});
    Block block = capture([&] { body(v); });
    place(For{var, i64(begin), i64(end), i64(step), ForKind::Unrolled, std::move(block)});
}

void Builder::if_(Expr condition, const std::function<void()>& then_body, const std::function<void()>& else_body) {
    if (int64_t c; is_literal(condition, &c)) {
        if (c) then_body();
        else if (else_body) else_body();
        return;
    }
    Block yes = capture(then_body), no = capture(else_body);
    place(If{condition, std::move(yes), std::move(no)});
}

void Builder::set_error(Expr code) { place(SetError{code}); }
void Builder::comment(std::string text) { place(Comment{std::move(text)}); }

}  // namespace opwright::loop
