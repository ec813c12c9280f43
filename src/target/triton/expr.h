// L1 expressions as Triton block expressions.
#pragma once
#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "math/program.h"
#include "target/triton/range.h"
#include "target/triton/text.h"

namespace opwright::target::triton {

// What Triton has no form for, found while printing: the reason, a sentence. Caught where emission begins.
struct Refusal : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The axes of a block, outermost first, each named by a variable of its.
using Axes = std::vector<math::VarId>;
inline bool has(const Axes& axes, math::VarId v) { return std::find(axes.begin(), axes.end(), v) != axes.end(); }

// How tightly a text binds, as Python reads it.
enum Level : int { kCompare = 1, kOr, kXor, kAnd, kShift, kSum, kProduct, kUnary, kAtom };

// Python text whose value is a block over `axes` ([]: a scalar).
struct Piece {
    std::string text;
    Level level = kAtom;
    Axes axes;
};

// "tl.float32": the type that values of t are computed in, and the type that they are stored in.
std::string compute_name(DType t);
std::string storage_name(DType t);
// A number as Python writes it; `typed` where nothing beside it gives it its type.
std::string literal_text(const math::Expr& e, bool typed = false);

struct LoadOptions {
    std::string other = {};     // what lanes outside the block hold
    bool raw = false;           // not converted to the compute type
    std::string eviction = {};  // "evict_last": it is read again
    bool past_l1 = false;       // where there is no such policy
};

class Expressions {
public:
    Expressions(const math::Program& p, File& file, Names& names, PythonWriter& out)
        : p_(p), file_(file), names_(names), out_(out) {}

    // ---- what the kernel provides
    std::unordered_map<math::VarId, Piece> index;       // index variables: blocks or scalars of type INDEX
    std::unordered_map<math::VarId, math::VarId> axis;  // index variables that lie on an axis of the block
    std::unordered_map<math::VarId, std::pair<Piece, std::string>> guard;  // axes that may leave their extent: n, "N"
    std::set<math::ExprId> short_exponentials;  // of which 16-bit results take few digits
    std::function<const Piece*(math::ExprId)> held;                        // the buffer that holds a value
    std::function<std::string(math::TensorId)> pointer;                    // the argument that points to a tensor
    std::function<std::string()> error_pointer;

    // The value over `in`, every axis of it broadcast to `in`.
    std::string value(math::ExprId e, const Axes& in, Level level = kCompare);
    // The same as a named piece over the axes that e depends on, in the order of `order`.
    Piece named(math::ExprId e, const Axes& order, const std::string& name);
    // A load: as a statement "name = tl.load(...)".
    Piece load(math::ExprId e, const Axes& order, const std::string& name, const LoadOptions& o = {});

    // "x_ptr + i * N + j" and the conditions under which tensor t has an element at `at` and the block has a point.
    struct Place {
        std::string pointer;
        Axes axes;
        std::optional<Piece> mask;  // missing: always
        bool outside = false;       // the mask says more than that the block has a point
    };
    Place place(math::TensorId t, const std::vector<math::ExprId>& at, math::Outside outside, const Axes& order,
                const Axes& least = {});

    // A value is to be read from this piece.
    void set(math::ExprId e, const Piece& piece) { known_.values[e] = piece; }

    // "name = text" as a statement, and the name.
    Piece bind(const Piece& piece, const std::string& name);

    // The axes of `order` that e depends on.
    Axes axes_of(math::ExprId e, const Axes& order) const;
    // Broadcasts a piece over `in`.
    std::string over(const Piece& piece, const Axes& in, Level level = kCompare) const;
    // The name of "(m < M) & (n < N)" for those of the axes that may leave their extent; nothing where none does.
    std::optional<Piece> mask(const Axes& axes);
    // a & b, either of which may be missing.
    Piece both(const std::optional<Piece>& a, const Piece& b, const Axes& order) const;

    // Values computed since are forgotten when a loop ends.
    void open() { scopes_.push_back(known_); }
    void close() {
        known_ = std::move(scopes_.back());
        scopes_.pop_back();
    }

private:
    Piece print(math::ExprId e, const Axes& order);
    Piece offset(math::ExprId e, const Axes& order);  // an index expression, in INDEX
    Piece linear(const math::Affine& a, const Axes& order);
    Piece inward(const Piece& i, math::ExprId e);
    Piece integer(math::ExprId e, const Axes& order, const std::string& type);  // such a one as a value
    Piece call(const math::Expr& e, const Axes& order);
    Piece float_call(const math::Expr& e, DType t, const Axes& order);
    Piece int_call(const math::Expr& e, DType t, const Axes& order);
    Piece convert(const math::Expr& e, const Axes& order);
    Piece inside(const math::Expr& e, const Axes& order);
    Piece operation(const std::string& op, Level level, math::ExprId a, math::ExprId b, const Axes& order,
                    bool associative = false);
    Piece function(const std::string& f, const std::vector<math::ExprId>& args, const Axes& order,
                   const std::string& more = "");
    Piece helper(const std::string& f, const std::vector<math::ExprId>& args, const Axes& order,
                 const std::string& more = "");
    bool is_short(const math::Expr& e) const {
        return std::any_of(short_exponentials.begin(), short_exponentials.end(),
                           [&](math::ExprId x) { return p_.expr(x).args == e.args; });
    }
    bool plain(math::ExprId e) const;  // an index expression that `offset` prints in INDEX
    void count(math::ExprId e);
    Axes merge(std::initializer_list<Axes> all, const Axes& order) const;
    std::optional<Range> range(math::ExprId e) const;

    const math::Program& p_;
    File& file_;
    Names& names_;
    PythonWriter& out_;
    struct Known {
        std::unordered_map<math::ExprId, Piece> values;
        std::map<Axes, Piece> masks;
        std::map<std::string, Piece> inward;
    } known_;
    std::vector<Known> scopes_;
    std::unordered_map<math::ExprId, int> uses_;
    math::ExprId whole_ = math::kNone;  // what is being printed as a statement of its own
};

}  // namespace opwright::target::triton
