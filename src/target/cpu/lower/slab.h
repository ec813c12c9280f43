// What the windows of a contraction's factor read, copied once. Internal to target/cpu.
#pragma once
#include <functional>

#include "schedule/window.h"
#include "target/cpu/lower/pack.h"

namespace opwright::target::cpu {

// A slab holds what the windows of some rows and columns of the output read, padding as zeros: a plane for each residue
// of the strides, in which neighbours of the output are neighbours. There a tap is nothing but a distance. Channels lie
// plane behind plane, or side by side at each place (`channels_inner`), as they do in the tensor.
class Slab {
public:
    using LExpr = loop::Expr;
    // `channels`: indices, outermost first; one at most where they are inner.
    Slab(Context& c, Point& point, math::ExprId factor, const schedule::Window& w, std::vector<math::VarId> channels,
         int lanes, DType type, bool channels_inner);

    // Settles the sizes for slabs that serve `rows` x `columns` of the output, of `channels` channels.
    void measure(const math::Sym& rows, const math::Sym& columns, const math::Sym& channels);
    // All of a kind follow from measure().
    const math::Sym& row() const { return row_; }          // elements between rows of the output
    const math::Sym& column() const { return column_; }    // between its columns
    const math::Sym& channel() const { return channel_; }  // between channels; of a whole channel where they are not inner
    math::Sym elements(const math::Sym& channels) const;
    int64_t planes() const { return w_.row.planes() * w_.column.planes(); }

    // Points of the output: rows [y0, y1), columns [x0, x1).
    struct Box {
        LExpr y0, y1, x0, x1;
    };
    // Copies what the windows of the box read of channels [c0, c1). Element u of plane r is what the output's point u
    // reads by tap r. A run may be written past its end, by less than a vector; the next one puts that right.
    void fill(loop::BufferId buffer, const Box& box, LExpr c0, LExpr c1);
    // Distance of tap (y, x) within a channel.
    LExpr distance(LExpr y, LExpr x);

private:
    LExpr reach(const schedule::WindowAxis& a, LExpr r);
    void each_plane(const schedule::WindowAxis& a, const std::function<void(LExpr)>& body);
    // `count` elements along `lane` from `first` on, to buffer[at].
    void run(loop::BufferId buffer, LExpr at, math::VarId lane, LExpr first, LExpr count);

    Context& c_;
    loop::Builder& b_;
    Point& point_;
    math::ExprId factor_;
    const schedule::Window w_;
    const std::vector<math::VarId> channels_;
    int lanes_;
    DType type_;
    bool inner_;
    math::Sym row_ = 1, column_ = 1, plane_ = 1, channel_ = 1;
};

}  // namespace opwright::target::cpu
