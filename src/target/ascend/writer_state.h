// What is known of a kernel while it is written: the nest, the class's buffers and members, and what holds which value.
// Private to kernel.cpp, like the rest of the chain: values, folds, and the writer itself.
#pragma once
#include <fmt/format.h>

#include <algorithm>

#include "target/ascend/kernel.h"
#include "target/ascend/vector.h"
#include "tile/blocks.h"

namespace opwright::target::ascend {
using namespace math;
using tile::BufferId;
using tile::kNoBuffer;
using tile::Stmt;
using tile::StmtKind;
using Lines = std::vector<std::string>;

inline bool has(const std::vector<uint32_t>& v, uint32_t x) { return std::find(v.begin(), v.end(), x) != v.end(); }

struct Queue {
    std::string name, type;
    enum Kind : uint8_t { In, Out, Copy } kind = In;
    int64_t bytes = 4;   // of an element
    int64_t stride = 1;  // elements a lane
};
struct Member {
    std::string name, type, initial;
};

class WriterState {
public:
    WriterState(const tile::Program& p, size_t nest, const Names& names, Helpers& helpers, const std::string& suffix,
                const Product* product, bool padded)
        : p_(p),
          nest_(p.nests[nest]),
          m_(p.kernel.program),
          names_(names),
          helpers_(helpers),
          local_(p.kernel.nests[nest].local),
          name_(lower_snake(m_.name) + suffix),
          class_(upper_camel(name_) + "Kernel"),
          product_(product),
          padded_(padded),
          scalar_(m_, names, helpers),
          vector_(m_, scalar_) {
        own_ = names;
    }

protected:
    static std::string lower_snake(const std::string& s) {
        std::string r;
        for (char c : s) r += std::isalnum(static_cast<unsigned char>(c)) ? static_cast<char>(std::tolower(c)) : '_';
        return r.empty() ? "kernel" : r;
    }

    struct Place {
        bool scalar = false;
        std::string text;          // scalar: its expression; else the name of the LocalTensor
        DType dtype = DType::F32;  // of the elements in the unified buffer
        Value::Kind kind = Value::Tensor;
        int slot = -1;
        bool global = false;  // elements are read from global memory, each by itself
        int segment = -1;     // where `text` is declared; elsewhere it is declared anew
        std::string buffer;   // the TBuf behind it, where it is kept
        std::string offset;   // "[n]" where it does not begin with the buffer
        bool full = false;    // every element of the buffer has a value, those beyond the tile too
        std::string queue;    // a tile that goes out as it came in: the queue it passes through
    };
    struct Out {
        std::string queue, local;
    };
    struct Acc {
        enum Kind : uint8_t { OneScalar, Vectorised, Array } kind = OneScalar;
        std::string text, best;  // the member or the LocalTensor's buffer; of an arg reduction the value so far
        DType type = DType::F32, best_type = DType::F32;
        ReduceOp op = ReduceOp::Sum;
        bool full = false, conditional = false;
    };
    struct Method {
        Lines in, compute, out;
        std::string note;
    };

    // ---- the block axis
    void find_block() {
        block_ = kNone;
        whole_ = in_grid_ = false;
        const schedule::NestPlan& plan = p_.schedule.nests[static_cast<size_t>(&nest_ - p_.nests.data())];
        if (plan.blocks.empty()) return;
        block_ = plan.blocks[0].var;
        whole_ = plan.blocks[0].tile == schedule::kWhole;
        for (const tile::GridAxis& g : nest_.grid) in_grid_ |= g.var == block_;
    }

    bool on_block(BufferId b) const { return !p_.buffers[b].box.empty(); }

    // ---- which segments read a buffer
    // A segment is a run of statements between loops; its loads are CopyIn, its stores CopyOut, the rest Compute.
    void scan_uses(const std::vector<Stmt>& body) {
        made_.assign(p_.buffers.size(), -1);
        read_.assign(p_.buffers.size(), {});
        held_ = tile::Held();
        int segment = 0;
        scan(body, segment);
    }
    void scan(const std::vector<Stmt>& body, int& segment) {
        bool fresh = true;
        const tile::Held before = held_;
        for (const Stmt& s : body) {
            if (s.kind == StmtKind::For) {
                const tile::Held outer = held_;
                ++segment;
                scan(s.body, segment);
                held_ = outer;
                fresh = false;
                continue;
            }
            if (!fresh) ++segment, fresh = true;
            for (ExprId e : operands(s)) reads(e, segment);
            if (s.a != kNoBuffer) read_[s.a].insert(segment);
            if (s.b != kNoBuffer) read_[s.b].insert(segment);
            if (s.kind == StmtKind::Accumulate || s.kind == StmtKind::Scan) {
                read_[s.dst].insert(segment);
                if (s.b != kNoBuffer) read_[s.b].insert(segment);
            }
            if (s.dst != kNoBuffer && made_[s.dst] < 0) made_[s.dst] = segment;
            if (s.kind == StmtKind::Reduce && s.a == kNoBuffer) read_[s.dst].insert(segment);
            held_.after(p_, s);
        }
        if (&body != &nest_.body) held_ = before;
    }
    // Expressions that a statement evaluates.
    std::vector<ExprId> operands(const Stmt& s) const {
        std::vector<ExprId> r;
        if (s.kind == StmtKind::Map || s.kind == StmtKind::Load || s.kind == StmtKind::Gather) {
            const Expr& x = m_.expr(p_.buffers[s.dst].value);
            if (s.kind == StmtKind::Map)
                r.push_back(p_.buffers[s.dst].value);
            else
                r.insert(r.end(), x.args.begin(), x.args.end());
        }
        if (s.kind == StmtKind::Store || s.kind == StmtKind::ScatterReduce) r = m_.equations[s.equation].at;
        return r;
    }
    void reads(ExprId e, int segment) {
        const BufferId b = held_.find(p_, e);
        if (b != kNoBuffer) {
            read_[b].insert(segment);
            return;
        }
        for (ExprId a : m_.expr(e).args) reads(a, segment);
    }
    bool outlives(BufferId b) const {
        return std::any_of(read_[b].begin(), read_[b].end(), [&](int s) { return s != made_[b]; });
    }

    // ---- parameters and buffers of the class
    std::string parameter(TensorId t) {
        if (!has(parameters_, t)) parameters_.push_back(t);
        return names_.tensor(t);
    }
    DType stored_type(TensorId t) const {
        const TensorInfo& i = m_.tensors[t];
        return i.role == Role::Temp ? compute_type(i.dtype) : i.dtype;
    }
    static void check_type(DType t) {
        if (t == DType::F64) throw Unsupported{"The chip does not compute in f64."};
    }
    std::string queue(const std::string& wish, DType t, Queue::Kind kind, int64_t stride = 1) {
        const char* const prefix = kind == Queue::In ? "inQueue" : kind == Queue::Out ? "outQueue" : "copyQueue";
        const std::string n = own_.unique(prefix + upper_camel(wish));
        queues_.push_back({n, memory_type(t), kind, static_cast<int64_t>(size_of(t)), stride});
        return n;
    }
    // Passes one after the other over a tensor take turns with its queues.
    std::string in_queue(TensorId t, const std::string& wish, DType type, int64_t stride = 1) {
        for (auto& [queue, segment] : in_queues_[{t, stride}])
            if (segment != segment_) {
                segment = segment_;
                return queue;
            }
        in_queues_[{t, stride}].emplace_back(queue(wish, type, Queue::In, stride), segment_);
        return in_queues_[{t, stride}].back().first;
    }
    // A buffer of the class that lives as long as the task.
    std::string kept(BufferId b, DType t, int64_t stride = 1) {
        if (auto it = kept_.find(b); it != kept_.end()) return it->second;
        const std::string n = own_.unique(lower_camel(p_.buffers[b].name) + "Buf");
        buffers_.push_back({n, memory_type(t), Queue::In, static_cast<int64_t>(size_of(t)), stride});
        kept_[b] = n;
        return n;
    }
    // The name of a scalar: where a tensor is called so already, "centreValue".
    std::string scalar_name(const std::string& wish) {
        return own_.unique(names_.taken(wish) ? wish + "Value" : wish);
    }
    std::string member(const std::string& wish, const std::string& type) {
        const std::string n = scalar_name(lower_camel(wish));
        members_.push_back({n, type, type == "bool" ? "false" : "0"});
        return n;
    }

    // ---- values that buffers hold, as text
    // Brings the name of a kept tensor into the present method.
    std::string local(Place& pl) {
        if (pl.buffer.empty() || pl.segment == segment_) return pl.text;
        compute_.push_back(fmt::format("LocalTensor<{0}> {1} = {2}.Get<{0}>(){3};", memory_type(pl.dtype), pl.text,
                                       pl.buffer, pl.offset));
        pl.segment = segment_;
        return pl.text;
    }
    std::string scalar_held(ExprId e) {
        const BufferId b = held_.find(p_, e);
        if (b == kNoBuffer) return "";
        auto it = places_.find(b);
        if (it == places_.end() || it->second.global) return "";
        Place& pl = it->second;
        if (pl.scalar) return pl.text;
        if (in_lane_loop_.empty()) return "";
        if (pl.kind == Value::Mask) return "";
        const std::string at = fmt::format("{}.GetValue({})", local(pl), in_lane_loop_);
        return scalar_.from_memory(at, pl.dtype);
    }

    static const char* instruction(ReduceOp op) {
        switch (op) {
            case ReduceOp::Sum: return "Add";
            case ReduceOp::Prod: return "Mul";
            case ReduceOp::Max: return "Max";
            case ReduceOp::Min: return "Min";
            default: return nullptr;
        }
    }

    const tile::Program& p_;
    const tile::Nest& nest_;
    const Program& m_;
    const Names& names_;
    Helpers& helpers_;
    const std::vector<TensorId>& local_;
    std::string name_, class_;
    const Product* product_;
    bool padded_;
    Scalar scalar_;
    Vector vector_;
    Names own_{math::Program{}};  // names of the class: those of the operator and its own

    VarId block_ = kNone;
    bool whole_ = false, in_grid_ = false;
    std::vector<int> made_;            // by buffer: the segment that makes it
    std::vector<std::set<int>> read_;  // and those that read it
    int segment_ = 0;
    bool loop_done_ = false, probing_ = false, faults_ = false, one_core_ = false;
    // What reductions need of a work area: a float for each 256 bytes, two, or those of all levels.
    enum class Work : uint8_t { None, Sums, Extremes, Places } work_ = Work::None;
    tile::Held held_;
    std::map<BufferId, Place> places_;
    std::map<BufferId, Acc> accs_;
    std::map<BufferId, std::pair<std::string, int>> locals_, best_locals_;
    std::map<BufferId, std::string> kept_;
    std::map<BufferId, Out> outs_;
    std::map<BufferId, DType> turned_loads_;  // loads across rows, by what memory holds
    std::vector<TensorId> parameters_;
    std::set<TensorId> scattered_;
    std::vector<Queue> queues_, buffers_;
    // By tensor and stride, and the segment that used each last.
    std::map<std::pair<TensorId, int64_t>, std::vector<std::pair<std::string, int>>> in_queues_;
    std::set<std::string> scalar_queues_;
    std::vector<Member> members_;
    std::set<VarId> loop_vars_;
    std::vector<Method> methods_;
    std::vector<Value> hold_;
    Lines copy_in_, compute_, copy_out_, free_;
    Lines once_, once_tails_;                         // what every task reads: fetched before the first
    std::map<ExprId, std::string> once_buffers_;
    Lines edges_;                                     // for the lanes of windows that lie beyond a row
    std::vector<std::string> notes_;                  // what the present method computes
    std::vector<std::pair<BufferId, Place>> narrow_;  // places that a wider copy stands in for in this method
    std::map<int64_t, std::string> offset_buffers_;   // by stride in elements and their size
    std::string folded_;                              // the LocalTensor of folded values, and where it is declared
    int folded_segment_ = -1;
    std::string in_lane_loop_;
};

}  // namespace opwright::target::ascend
