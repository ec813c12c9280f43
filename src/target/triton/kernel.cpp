#include "target/triton/kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "math/short_exponent.h"
#include "target/triton/kernel_printer.h"

namespace opwright::target::triton {
using namespace math;
using tile::kNoBuffer;
using tile::Stmt;
using tile::StmtKind;

namespace {
constexpr size_t kLane = 32;      // threads of a warp
constexpr int64_t kUnrolled = 8;  // loops of a known, small count are written out by the compiler

bool runs_backward(const Program& p, const std::vector<Stmt>& body) {
    for (const Stmt& s : body)
        if (s.kind == StmtKind::Scan && p.expr(p.equations[s.equation].rhs).backward) return true;
    return false;
}
}  // namespace

KernelPrinter::KernelPrinter(const tile::Program& p, size_t nest, File& file, std::string name, RowForm rows)
    : p_(p),
      math_(p.kernel.program),
      nest_(p.nests[nest]),
      form_(p.kernel.nests[nest]),
      plan_(p.schedule.nests[nest]),
      file_(file),
      expressions_(math_, file, names_, body_),
      rows_(rows) {
    r_.name = std::move(name);
    file.reserve_sizes(names_);
    for (const char* n : {"pid", "INDEX", "error_ptr", "GROUP_M", "EARLY", "OPAQUE", "PARTS", "words_ptr"})
        names_.reserve(n);
    for (const TensorInfo& t : math_.tensors) names_.reserve(t.name + "_ptr");
    expressions_.held = [this](ExprId e) { return find(e); };
    expressions_.pointer = [this](TensorId t) { return pointer(t); };
    expressions_.error_pointer = [this] {
        r_.reports = true;
        return std::string("error_ptr");
    };
}

KernelText KernelPrinter::run() {
    body_.indent();
    if (elementwise()) {
        r_.awaits = true;
        body_.line(file_.helper("_await_earlier") + "(EARLY)");
        file_.launch_helper("_early");
    }
    if (form_.contraction)
        contraction_axes();
    else
        axes();
    scan_uses(nest_.body);
    plan_walks();
    if (!eviction_.empty() && rows_ != RowForm::Alone) begin_parts();
    const auto local = [&](TensorId t) {
        return std::find(form_.local.begin(), form_.local.end(), t) != form_.local.end();
    };
    const auto exponentials = short_exponentials(math_, form_.equations, [&](TensorId t) {
        return local(t) ? std::nullopt : std::optional(math_.tensors[t].dtype);
    });
    expressions_.short_exponentials = {exponentials.begin(), exponentials.end()};
    statements(nest_.body);
    header();
    return std::move(r_);
}

// Nothing is folded and nothing walked: such kernels are short beside their launch, and gain by an early one.
bool KernelPrinter::elementwise() const {
    return !form_.contraction && std::all_of(nest_.body.begin(), nest_.body.end(), [](const Stmt& s) {
        return s.kind == StmtKind::Load || s.kind == StmtKind::Gather || s.kind == StmtKind::Map ||
               s.kind == StmtKind::Store;
    });
}

std::string KernelPrinter::pointer(TensorId t) {
    if (std::find(r_.tensors.begin(), r_.tensors.end(), t) == r_.tensors.end()) r_.tensors.push_back(t);
    return file_.tensor(t) + "_ptr";
}

const Piece* KernelPrinter::find(ExprId e) {
    const BufferId b = held_.find(p_, e);
    if (b == kNoBuffer) return nullptr;
    const auto it = pieces_.find(b);
    return it == pieces_.end() ? nullptr : &it->second;
}

Axes KernelPrinter::axes_of(const tile::Buffer& b) const {
    Axes r;
    for (const tile::Extent& x : b.box) {
        const auto it = expressions_.axis.find(x.var);
        if (it != expressions_.axis.end() && (r.empty() || r.back() != it->second)) r.push_back(it->second);
    }
    return r;
}

std::string KernelPrinter::shape(const Axes& axes) const {
    std::string r;
    for (VarId a : axes) r += (r.empty() ? "" : ", ") + block_.at(a);
    return axes.empty() ? "[]" : "[" + r + "]";
}

std::string KernelPrinter::full(const Axes& axes, const std::string& value, const std::string& type) const {
    return fmt::format("tl.full({}, {}, {})", shape(axes), value, type);
}

std::string KernelPrinter::buffer_name(BufferId b) const {
    const auto it = stored_.find(b);
    if (it != stored_.end()) return it->second;
    const std::string& n = p_.buffers[b].name;
    if (n == "sum") return "total";
    if (n == "max") return "largest";
    if (n == "min") return "smallest";
    if (n == "prod") return "product";
    return n;
}

void KernelPrinter::statements(const std::vector<Stmt>& body) {
    for (const Stmt& s : body) {
        statement(s);
        held_.after(p_, s);
    }
}

void KernelPrinter::statement(const Stmt& s) {
    switch (s.kind) {
        case StmtKind::For: return loop(s);
        case StmtKind::Load:
        case StmtKind::Gather:
        case StmtKind::Map: return define(s);
        case StmtKind::Fill: return fill(s);
        case StmtKind::Accumulate: return accumulate(s);
        case StmtKind::Reduce: return reduce(s);
        case StmtKind::AccumulatePair: return accumulate_pair(s);
        case StmtKind::ReducePair: return reduce_pair(s);
        case StmtKind::Contract: return contract(s);
        case StmtKind::Scan: return scan(s);
        case StmtKind::Store: return store(s);
        case StmtKind::ScatterReduce: return update(s);
    }
}

void KernelPrinter::loop(const Stmt& s) {
    // The mask of what is stored after the loop serves the loads in it as well.
    const bool stores = std::any_of(nest_.body.begin(), nest_.body.end(), [&](const Stmt& x) {
        return x.kind == StmtKind::Store && math_.equations[x.equation].vars.size() >= order_.size() &&
               std::find(form_.local.begin(), form_.local.end(), math_.equations[x.equation].lhs) == form_.local.end();
    });
    if (!s.lane && !form_.contraction && stores) (void)expressions_.mask(order_);
    const tile::Held before = held_;
    const auto index = expressions_.index;
    const auto guard = expressions_.guard;
    const Names names = names_;  // those of the body may be used again after it
    expressions_.open();
    const bool contraction = form_.contraction.has_value();
    const Sym extent = contraction ? group_extent(form_.contraction->k) : math_.vars[s.var].extent;
    const std::string n = size(extent);
    r_.index = true;
    if (s.lane && rows_ != RowForm::Alone) {
        const std::string b = block_.at(s.var), i = names_.take(math_.vars[s.var].name);
        body_.line(fmt::format("for {} in tl.static_range({}):", part_, count_));
        body_.indent();
        if (!walk_) walk_ = &s;
        const std::string at = share_.empty() ? part_ : fmt::format("({} * {} + {})", share_, count_, part_);
        body_.line(fmt::format("{0} = ({1} * {2} + tl.arange(0, {2})).to(INDEX)", i, at, b));
        expressions_.guard[s.var] = {{i, kAtom, {s.var}}, n};
        expressions_.index[s.var] = {i, kAtom, {s.var}};
    } else if (s.lane) {
        const std::string b = block_.at(s.var), start = names_.take("start");
        if (!walk_) walk_ = &s, start_ = start;
        const bool backward = runs_backward(math_, s.body) || backward_.count(&s);
        // Counted upward all the same: of a range that goes down Triton does not see that 16 bytes can be moved at
        // once.
        std::string end;
        if (backward) {
            end = names_.take("end");
            body_.line(fmt::format("{} = (tl.cdiv({}, {}) - 1) * {}", end, n, b, b));
        }
        body_.line(fmt::format("for {} in range(0, {}, {}):", start, n, b));
        body_.indent();
        std::string wanted = math_.vars[s.var].name;
        if (contraction) {
            wanted.clear();
            for (VarId v : form_.contraction->k) wanted += (wanted.empty() ? "" : "_") + math_.vars[v].name;
        }
        const std::string i = names_.take(wanted);
        body_.line(fmt::format("{} = ({}{} + tl.arange(0, {})).to(INDEX)", i, backward ? end + " - " : "", start, b));
        const auto c = extent.constant();
        const int64_t least = contraction ? 16 : 1;
        if (!exact(extent, s.tile) || *c < least) expressions_.guard[s.var] = {{i, kAtom, {s.var}}, n};
        if (contraction)
            split(form_.contraction->k, i, {s.var});
        else
            expressions_.index[s.var] = {i, kAtom, {s.var}};
    } else {
        const auto c = extent.constant();
        const std::string i = names_.take(math_.vars[s.var].name), step = names_.take("step");
        body_.line(fmt::format("for {} in {}({}):", step, c && *c <= kUnrolled ? "tl.static_range" : "range", n));
        body_.indent();
        body_.line(fmt::format("{} = tl.cast({}, INDEX)", i, step));
        expressions_.index[s.var] = {i, kAtom, {}};
    }
    statements(s.body);
    body_.outdent();
    names_ = names;
    expressions_.close();
    expressions_.index = index;
    expressions_.guard = guard;
    held_ = before;
    if (walk_ == &s) {
        walk_ = nullptr;
        loaded_row_ = true;  // of kernels that hold it in parts, the first walk reads it
    }
}

void KernelPrinter::define(const Stmt& s) {
    const tile::Buffer& b = p_.buffers[s.dst];
    const Axes order = axes_of(b);
    const Expr& x = math_.expr(b.value);
    if (form_.contraction && (b.value == form_.contraction->a || b.value == form_.contraction->b) &&
        s.kind == StmtKind::Load)
        return factor(s.dst, order);
    if (walk_ && rows_ != RowForm::Alone && take_part(s, order)) return;
    if (s.kind != StmtKind::Map && x.kind == ExprKind::Load) {
        LoadOptions o;
        if (const auto op = fill_of(s.dst)) {
            o.other = identity_text(*op, x.dtype);
            filled_.insert(s.dst);
        }
        if (rows_ == RowForm::Shared && of_row(b.value)) o.eviction = "evict_first";
        if (walk_ && rows_ == RowForm::Alone) {
            const auto e = eviction_[walk_].find(b.value);
            if (e != eviction_[walk_].end())
                o.eviction = e->second;
            else  // by measurement: what one walk alone reads leaves that cache to the row
                o.past_l1 = std::any_of(eviction_.begin(), eviction_.end(), [](auto& x) { return !x.second.empty(); });
        }
        pieces_[s.dst] = expressions_.load(b.value, order, buffer_name(s.dst), o);
    } else {
        const Piece* known = find(b.value);
        pieces_[s.dst] = known ? *known : expressions_.named(b.value, order, buffer_name(s.dst));
    }
}

void KernelPrinter::header() {
    // Sizes that expressions met, in the order in which the file knows them.
    std::vector<std::string> sizes;
    for (const File::Size& s : file_.sizes())
        if (mentions(s.name)) sizes.push_back(s.name);
    r_.sizes = sizes;
    std::sort(r_.tensors.begin(), r_.tensors.end(), [&](TensorId a, TensorId b) { return rank(a) < rank(b); });
    std::string parameters;
    const auto add = [&](const std::string& s) { parameters += (parameters.empty() ? "" : ", ") + s; };
    for (TensorId t : r_.tensors) add(file_.tensor(t) + "_ptr");
    if (r_.reports) add("error_ptr");
    if (r_.folds) add("words_ptr");
    for (const std::string& n : r_.sizes) add(n);
    r_.index = mentions("INDEX");
    if (r_.index) add("INDEX: tl.constexpr");
    if (r_.awaits) add("EARLY: tl.constexpr");
    if (r_.opaque) add("OPAQUE: tl.constexpr");
    if (r_.folds) add("PARTS: tl.constexpr");
    for (const auto& [n, host] : r_.blocks) add(n + ": tl.constexpr");
    PythonWriter w;
    w.line("@triton.jit");
    w.line(fmt::format("def {}({}):", r_.name, parameters));
    r_.text = w.text() + body_.text();
    if (plan_.warps)
        r_.warps = std::to_string(plan_.warps);
    else if (form_.contraction)
        r_.warps = uses_dot(math_, *form_.contraction) ? "8 if BLOCK_M * BLOCK_N >= 128 * 128 else 4" : "4";
    else if (!elements_.empty())
        r_.warps = warps();
    if (plan_.stages)
        r_.stages = std::to_string(plan_.stages);
    else if (form_.contraction && uses_dot(math_, *form_.contraction))
        r_.stages = r_.choice.empty() ? "3" : "3 if grid[0] > 132 else 4";
}

// By measurement on an H200: 16 elements a thread, of 16-bit rows 32; of element-wise kernels what 16 bytes hold, so that
// the threads of several programs on a processor take turns at loading and storing.
std::string KernelPrinter::warps() {
    if (r_.awaits && plan_.blocks.size() == 1) {
        size_t bytes = 1;
        for (TensorId t : r_.tensors) bytes = std::max(bytes, size_of(math_.tensors[t].dtype));
        return fmt::format("min(max({} // {}, 1), 16)", elements_, kLane * 16 / bytes);
    }
    const auto whole = [](const schedule::BlockAxis& b) { return b.tile == schedule::kWhole; };
    if (r_.folds) return std::to_string(kShare / kShareOfThread / static_cast<int64_t>(kLane));
    if (rows_ == RowForm::InParts) {
        r_.registers = elements_ + " <= 4096";
        return elements_ + " // 256";
    }
    if (!eviction_.empty())
        return fmt::format("min(max({} // 256, 1), 16 if {} <= 32768 else 32)", elements_,
                           file_.size(math_.vars[eviction_.begin()->first->var].extent));
    if (std::none_of(plan_.blocks.begin(), plan_.blocks.end(), whole))
        return fmt::format("min(max({} // 512, 1), 16)", elements_);
    r_.registers = elements_ + " > 8192";
    const bool narrow = std::all_of(math_.inputs.begin(), math_.inputs.end(),
                                    [&](TensorId t) { return size_of(math_.tensors[t].dtype) == 2; });
    if (narrow) return fmt::format("max(min({0} // 512, 4), {0} // 1024, 1)", elements_);
    return fmt::format("min(max({0} // 512, 1), 16 if {0} <= 16384 else 32)", elements_);
}

size_t KernelPrinter::rank(TensorId t) const {
    const auto& in = math_.inputs;
    const auto& out = math_.outputs;
    if (const auto i = std::find(in.begin(), in.end(), t); i != in.end()) return static_cast<size_t>(i - in.begin());
    if (const auto o = std::find(out.begin(), out.end(), t); o != out.end())
        return 1000 + static_cast<size_t>(o - out.begin());
    return 500 + t;
}

bool KernelPrinter::mentions(const std::string& name) const {
    const std::string& s = body_.text();
    const auto part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    for (size_t i = s.find(name); i != std::string::npos; i = s.find(name, i + 1))
        if (!part(s[i - 1]) && !(i + name.size() < s.size() && part(s[i + name.size()]))) return true;
    return false;
}

bool atomic(Update u, DType t) {
    const bool wide = t == DType::I32 || t == DType::I64 || t == DType::U32 || t == DType::U64;
    if (u == Update::Add) return wide || t == DType::F32 || t == DType::F64;
    return (u == Update::Max || u == Update::Min) && wide;
}

bool uses_dot(const Program& p, const schedule::Contraction& c) {
    return p.expr(c.reduce).dtype == DType::F32 && compute_type(p.expr(c.a).dtype) == DType::F32 &&
           compute_type(p.expr(c.b).dtype) == DType::F32;
}

KernelText print_kernel(const tile::Program& p, size_t nest, File& file, const std::string& name, RowForm form) {
    return KernelPrinter(p, nest, file, name, form).run();
}

}  // namespace opwright::target::triton
