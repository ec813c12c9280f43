#include "target/cuda/comment.h"

#include <algorithm>

#include "derive/cost.h"

namespace opwright::target::cuda {
using namespace math;

namespace {
// Of an H200, measured: a copy in device memory, and the product that cuBLAS reaches on its tensor cores; the rate of
// f32 is what the chip is built for.
constexpr double kCopy = 4.28e12, kTensorCores = 6.8e14, kFloat = 6.7e13;

std::string seconds(const Sym& amount, double rate) {
    if (const auto n = amount.constant()) return fmt::format("{:.3g} us", static_cast<double>(*n) / rate * 1e6);
    const std::string text = amount.str();
    std::string rate_text = fmt::format("{:.3g}", rate);
    rate_text.erase(std::remove(rate_text.begin(), rate_text.end(), '+'), rate_text.end());
    return fmt::format("{} / {} s", text.find(' ') == std::string::npos ? text : "(" + text + ")", rate_text);
}

std::string kind_of(const Context& c, TensorId t, const std::vector<ExprId>& at, const Stage& s) {
    const Program& p = c.p;
    const auto along = [&](VarId v) { return p.vars[v].name; };
    const size_t rank = p.tensors[t].shape.size();
    const int64_t bytes = s.pack * static_cast<int64_t>(size_of(c.stored[t]));
    const std::string packs = s.pack > 1 ? fmt::format(", up to {} bytes a thread", bytes) : "";
    if (contiguous(p, t, at, s.lane)) return fmt::format("coalesced, side by side along {}{}", along(s.lane), packs);
    if (s.read != kNone && contiguous(p, t, at, s.read))
        return fmt::format("coalesced, side by side along {}{}, and turned in shared memory", along(s.read), packs);
    Sym stride = 0, step = 1;
    for (size_t d = rank; d-- > 0;) {
        const auto f = affine(p, at[d]);
        if (!f) return "at places that are data or computed: coalesced as far as these are neighbours";
        stride = stride + f->coefficient(s.lane) * step;
        step = step * p.tensors[t].shape[d];
    }
    if (stride.is(0)) return "the same element for neighbouring threads: one access for all of them";
    if (stride.is(1)) return fmt::format("coalesced, side by side along {}, an element at a time", along(s.lane));
    const std::string text = stride.str();
    return fmt::format("not coalesced, neighbouring threads {} elements apart", text.size() > 60 ? "several" : text);
}
}  // namespace

std::vector<std::string> describe_accesses(const Context& c, const Group& g, const Stage& s) {
    const Program& p = c.p;
    if (s.lane == kNone) return {};
    std::vector<std::pair<std::string, std::vector<std::string>>> kinds;  // and the tensors
    const auto note = [&](TensorId t, const std::vector<ExprId>& at) {
        if (c.pointers[t].empty()) return;
        const std::string kind = kind_of(c, t, at, s);
        auto k = std::find_if(kinds.begin(), kinds.end(), [&](const auto& x) { return x.first == kind; });
        if (k == kinds.end()) k = kinds.insert(kinds.end(), {kind, {}});
        if (std::find(k->second.begin(), k->second.end(), c.pointers[t]) == k->second.end())
            k->second.push_back(c.pointers[t]);
    };
    const auto loads = [&](ExprId root) {
        for (ExprId l : loads_in(p, root, true)) {
            const Expr& x = p.expr(l);
            const auto rank = static_cast<long>(p.tensors[x.ref].shape.size());
            note(x.ref, {x.args.begin(), x.args.begin() + rank});
        }
    };
    if (g.slices)
        for (ExprId a : p.expr(g.slices->reduce).args) loads(a);
    for (uint32_t i : g.equations) {
        loads(p.equations[i].rhs);
        note(p.equations[i].lhs, p.equations[i].at);
    }
    std::vector<std::string> r;
    for (const auto& [kind, tensors] : kinds) r.push_back(fmt::format("{}: {}", fmt::join(tensors, ", "), kind));
    return r;
}

std::string leading_comment(const Program& source, const CudaProgram& p) {
    Code code;
    const auto text = [&](std::string line) {  // a backslash at its end would take the next line into the comment
        std::replace(line.begin(), line.end(), '\\', '/');
        code.comment(line);
    };
    text(source.doc.empty() ? source.name : source.name + ": " + source.doc);
    code.raw("//");
    const std::string equations = source.print();
    for (size_t at = 0; at < equations.size();) {
        const size_t end = std::min(equations.find('\n', at), equations.size());
        std::string line = equations.substr(at, end - at);
        std::replace(line.begin(), line.end(), '\\', '/');
        std::string indent = "//     ";
        while (line.size() + indent.size() > 120) {  // goes on, indented, behind a blank
            const size_t blank = line.rfind(' ', 120 - indent.size());
            if (blank == std::string::npos || blank == 0) break;
            code.raw(indent + line.substr(0, blank));
            line.erase(0, blank + 1);
            indent = "//         ";
        }
        if (!line.empty()) code.raw(indent + line);
        at = end + 1;
    }
    code.raw("//");
    const derive::Cost cost = derive::cost(source);
    const Sym bytes = cost.bytes(), work = cost.flops();
    const bool tensor_cores =
        std::any_of(p.stages.begin(), p.stages.end(), [](const Stage& s) { return s.tensor_cores; });
    // Only what a reader takes in at a glance is worth a place here.
    const auto brief = [](const Sym& s) {
        const std::string text = s.str();
        return text.size() <= 60 && text.find("min(") == std::string::npos;
    };
    std::string floors;
    if (brief(cost.read_bytes) && brief(cost.write_bytes))
        floors = fmt::format("Reads {} bytes and writes {}: {} at least, at what an H200 copies.",
                             cost.read_bytes.str(), cost.write_bytes.str(), seconds(bytes, kCopy));
    if (!work.is(0) && brief(work))
        floors += fmt::format("{}Operations: {}: {} at least, at what {}.", floors.empty() ? "" : " ", work.str(),
                              seconds(work, tensor_cores ? kTensorCores : kFloat),
                              tensor_cores ? "cuBLAS reaches on its tensor cores" : "its f32 units do");
    if (!floors.empty()) {
        text(floors);
        code.raw("//");
    }
    for (const Stage& s : p.stages) {
        std::string name = s.variants[0].kernel;  // the plain one: others have something behind it
        for (const Variant& v : s.variants)
            if (v.kernel.size() < name.size()) name = v.kernel;
        text(fmt::format("{}: {}{}.", name, s.about,
                         s.when.empty()                               ? ""
                         : s.when[0].kind == Condition::Kind::AtLeast ? "; where results are few and terms many"
                                                                      : "; where results are not few"));
        for (const std::string& a : s.accesses) text("  " + a + ".");
    }
    code.raw("//");
    text(
        "Tensors are dense and row-major. Kernels walk over their grid: any number of blocks, in x alone, gives the "
        "result.");
    code.raw("");
    return code.take();
}

}  // namespace opwright::target::cuda
