// TPipe, queues and buffers, and the instructions that order pipes.
#pragma once
#include "tensor.h"

namespace AscendC {

class TPipe;
inline thread_local TPipe* g_pipe = nullptr;

template <TPosition position>
class TBuf {
public:
    template <typename T>
    LocalTensor<T> Get() const {
        return LocalTensor<T>(buffer_, buffer_->address, buffer_->bytes);
    }
    template <typename T>
    LocalTensor<T> Get(uint32_t size, ascend_sim::At at = ascend_sim::At()) const {
        return GetWithOffset<T>(size, 0, at);
    }
    template <typename T>
    LocalTensor<T> GetWithOffset(uint32_t size, uint32_t offset, ascend_sim::At at = ascend_sim::At()) const {
        const ascend_sim::Instruction in(PIPE_S, "TBuf::Get", at);
        in.require(uint64_t{offset} + uint64_t{size} * sizeof(T) <= buffer_->bytes, "bounds", [&] {
            return buffer_->name() + " has " + std::to_string(buffer_->bytes) + " bytes, not " +
                   std::to_string(uint64_t{offset} + uint64_t{size} * sizeof(T));
        });
        return LocalTensor<T>(buffer_, buffer_->address + offset, size * static_cast<uint32_t>(sizeof(T)));
    }

private:
    friend class TPipe;
    ascend_sim::Buffer* buffer_ = nullptr;
};

// A queue of buffers between the pipe that fills them and the pipe that uses them. EnQue and DeQue order those two
// pipes, FreeTensor and AllocTensor order them the other way round; the scalar unit is ordered with neither.
template <TPosition source, TPosition destination, int32_t depth>
class TQueBind {
public:
    template <typename T>
    LocalTensor<T> AllocTensor(ascend_sim::At at = ascend_sim::At()) {
        const ascend_sim::Instruction in(PIPE_S, "AllocTensor", at);
        ascend_sim::Core& c = in.core();
        in.require(!buffers_.empty(), "queue", "the queue was not given buffers by InitBuffer");
        ascend_sim::Buffer* found = nullptr;
        for (size_t i = 0; i < buffers_.size() && !found; ++i) {
            ascend_sim::Buffer* b = buffers_[(next_ + i) % buffers_.size()];
            if (b->state == ascend_sim::BufferState::Free) found = b, next_ = (next_ + i + 1) % buffers_.size();
        }
        in.require(found != nullptr, "queue", [&] { return "no free buffer: " + states(); });
        in.require(c.alive[static_cast<int>(source)] < ascend_sim::kMaxAlive, "queue",
                   "more than 8 tensors of one position are allocated at once");
        ++c.alive[static_cast<int>(source)];
        found->state = ascend_sim::BufferState::Occupied;
        ++found->generation;
        c.clock[producer()].join(found->freed);
        in.undefine(found->address, found->bytes);  // what it held before is nobody's business
        return LocalTensor<T>(found, found->address, found->bytes);
    }
    template <typename T>
    bool EnQue(const LocalTensor<T>& t, ascend_sim::At at = ascend_sim::At()) {
        const ascend_sim::Instruction in(PIPE_S, "EnQue", at);
        ascend_sim::Buffer* b = own(in, t, ascend_sim::BufferState::Occupied, "EnQue needs a tensor of AllocTensor");
        in.require(static_cast<int32_t>(queued_.size()) < depth, "queue", [&] {
            return "more tensors are enqueued than the queue's depth of " + std::to_string(depth) + ": " + states();
        });
        b->state = ascend_sim::BufferState::Enqueued;
        ++b->generation;
        b->filled = in.core().clock[producer()];
        queued_.push_back(b);
        return true;
    }
    template <typename T>
    LocalTensor<T> DeQue(ascend_sim::At at = ascend_sim::At()) {
        const ascend_sim::Instruction in(PIPE_S, "DeQue", at);
        in.require(!queued_.empty(), "queue", [&] { return "the queue is empty: " + states(); });
        ascend_sim::Buffer* b = queued_.front();
        queued_.pop_front();
        b->state = ascend_sim::BufferState::Dequeued;
        in.core().clock[consumer()].join(b->filled);
        return LocalTensor<T>(b, b->address, b->bytes);
    }
    template <typename T>
    void FreeTensor(LocalTensor<T>& t, ascend_sim::At at = ascend_sim::At()) {
        const ascend_sim::Instruction in(PIPE_S, "FreeTensor", at);
        ascend_sim::Buffer* b = nullptr;
        for (ascend_sim::Buffer* o : buffers_)
            if (o == t.buffer()) b = o;
        in.require(b != nullptr, "queue", "the tensor belongs to another queue");
        in.require(b->state == ascend_sim::BufferState::Dequeued || b->state == ascend_sim::BufferState::Occupied,
                   "queue",
                   [&] { return b->name() + " is " + state_name(b->state) + ": freed twice, or still enqueued"; });
        in.require(b->generation == t.generation(), "stale", [&] { return b->name() + " was given back before"; });
        b->state = ascend_sim::BufferState::Free;
        ++b->generation;
        b->freed = in.core().clock[consumer()];
        b->freed.join(in.core().clock[producer()]);
        --in.core().alive[static_cast<int>(source)];
    }
    bool HasTensorInQue() const { return !queued_.empty(); }
    bool HasIdleBuffer() const {
        return std::any_of(buffers_.begin(), buffers_.end(),
                           [](auto* b) { return b->state == ascend_sim::BufferState::Free; });
    }

private:
    friend class TPipe;
    static constexpr int producer() { return source == TPosition::VECIN ? PIPE_MTE2 : PIPE_V; }
    static constexpr int consumer() { return destination == TPosition::VECOUT ? PIPE_MTE3 : PIPE_V; }

    template <typename T>
    ascend_sim::Buffer* own(const ascend_sim::Instruction& in, const LocalTensor<T>& t, ascend_sim::BufferState want,
                            const char* hint) {
        for (ascend_sim::Buffer* b : buffers_) {
            if (b != t.buffer()) continue;
            in.require(b->generation == t.generation() && b->state == want, "queue",
                       [&] { return b->name() + " is " + state_name(b->state) + "; " + hint; });
            return b;
        }
        in.fail("queue", "the tensor belongs to another queue");
    }
    std::string states() const {
        std::string r;
        for (ascend_sim::Buffer* b : buffers_) r += (r.empty() ? "" : ", ") + b->name() + " is " + state_name(b->state);
        return r;
    }

    std::vector<ascend_sim::Buffer*> buffers_;
    std::deque<ascend_sim::Buffer*> queued_;
    size_t next_ = 0;
};

template <TPosition position, int32_t depth>
class TQue : public TQueBind<position == TPosition::VECOUT ? TPosition::VECCALC : position,
                             position == TPosition::VECOUT ? TPosition::VECOUT : TPosition::VECCALC, depth> {
    static_assert(position == TPosition::VECIN || position == TPosition::VECOUT || position == TPosition::VECCALC,
                  "the simulator models the queues of the vector unit");
};

class TPipe {
public:
    TPipe() { g_pipe = this; }
    TPipe(const TPipe&) = delete;
    ~TPipe() {
        g_pipe = nullptr;
        if (std::uncaught_exceptions() > 0) return;  // a hazard ended the kernel early
        for (const ascend_sim::Buffer& b : core_.buffers)
            if (b.state != ascend_sim::BufferState::Free && b.state != ascend_sim::BufferState::Plain)
                core_.findings.push_back({"leak", "core " + std::to_string(core_.id) + ": " + b.name() + " is " +
                                                      state_name(b.state) +
                                                      " when the kernel ends: FreeTensor is missing"});
    }

    template <TPosition s, TPosition d, int32_t depth>
    bool InitBuffer(TQueBind<s, d, depth>& queue, int64_t num, int64_t bytes, ascend_sim::At at = ascend_sim::At()) {
        for (int64_t i = 0; i < num; ++i) {
            ascend_sim::Buffer* b = make(bytes, static_cast<int>(s), at);
            b->index = static_cast<int>(i);
            b->state = ascend_sim::BufferState::Free;
            queue.buffers_.push_back(b);
        }
        return true;
    }
    template <TPosition position>
    bool InitBuffer(TBuf<position>& buffer, int64_t bytes, ascend_sim::At at = ascend_sim::At()) {
        buffer.buffer_ = make(bytes, static_cast<int>(position), at);
        return true;
    }
    // Event ids 0 to 5 in turn; 6 and 7 are reserved.
    template <HardEvent event>
    TEventID AllocEventID(ascend_sim::At at = ascend_sim::At()) {
        const ascend_sim::Instruction in(PIPE_S, "AllocEventID", at);
        bool(&used)[6] = events_[static_cast<int>(event)];
        for (int i = 0; i < 6; ++i)
            if (!used[i]) {
                used[i] = true;
                return static_cast<TEventID>(i);
            }
        in.fail("flag", "all 6 event ids of this event are taken");
    }
    template <HardEvent event>
    void ReleaseEventID(TEventID id) {
        events_[static_cast<int>(event)][id] = false;
    }
    TEventID FetchEventID(HardEvent event) const {
        for (int i = 0; i < 6; ++i)
            if (!events_[static_cast<int>(event)][i]) return static_cast<TEventID>(i);
        return 0;
    }

private:
    ascend_sim::Buffer* make(int64_t bytes, int position, const ascend_sim::At& at) {
        const ascend_sim::Instruction in(PIPE_S, "InitBuffer", at);
        const auto n = [&] { return ascend_sim::first_argument(at, "InitBuffer"); };
        in.require(bytes > 0, "buffer", [&] { return n() + " has no bytes"; });
        const int64_t rounded = (bytes + ascend_sim::kBlock - 1) / ascend_sim::kBlock * ascend_sim::kBlock;
        in.require(core_.used + rounded <= ascend_sim::kUbBytes, "ub_budget", [&] {
            return n() + " needs " + std::to_string(rounded) + " bytes, but of the unified buffer's " +
                   std::to_string(ascend_sim::kUbBytes) + " are " + std::to_string(core_.used) + " taken";
        });
        in.require(core_.buffers.size() < ascend_sim::kMaxBuffers, "buffer_count", "a kernel may have 64 buffers");
        ascend_sim::Buffer& b = core_.buffers.emplace_back();
        b.made = at;
        b.position = position;
        b.address = core_.used;
        b.bytes = static_cast<uint32_t>(rounded);
        core_.used += b.bytes;
        return &b;
    }

    ascend_sim::Core& core_ = *ascend_sim::g_core;
    bool events_[static_cast<int>(HardEvent::MAX)][6] = {};
};

inline TPipe* GetTPipePtr() { return g_pipe; }

inline int64_t GetBlockIdx() { return ascend_sim::g_core->id; }
inline int64_t GetBlockNum() { return ascend_sim::g_core->device->cores() / ascend_sim::g_core->device->sub_blocks(); }
inline int64_t GetSubBlockNum() { return ascend_sim::g_core->device->sub_blocks(); }
inline int64_t GetSubBlockIdx() { return ascend_sim::g_core->id % ascend_sim::g_core->device->sub_blocks(); }

// ---- order between pipes

namespace sim {
struct EventPipes {
    int from, to;
};
inline EventPipes pipes_of(HardEvent e) {
    switch (e) {
        case HardEvent::MTE2_V: return {PIPE_MTE2, PIPE_V};
        case HardEvent::V_MTE2: return {PIPE_V, PIPE_MTE2};
        case HardEvent::MTE3_V: return {PIPE_MTE3, PIPE_V};
        case HardEvent::V_MTE3: return {PIPE_V, PIPE_MTE3};
        case HardEvent::MTE2_MTE3: return {PIPE_MTE2, PIPE_MTE3};
        case HardEvent::MTE3_MTE2: return {PIPE_MTE3, PIPE_MTE2};
        case HardEvent::S_V: return {PIPE_S, PIPE_V};
        case HardEvent::V_S: return {PIPE_V, PIPE_S};
        case HardEvent::S_MTE2: return {PIPE_S, PIPE_MTE2};
        case HardEvent::MTE2_S: return {PIPE_MTE2, PIPE_S};
        case HardEvent::S_MTE3: return {PIPE_S, PIPE_MTE3};
        case HardEvent::MTE3_S: return {PIPE_MTE3, PIPE_S};
        default: return {PIPE_V, PIPE_V};
    }
}
}  // namespace sim

// A flag's identity is its source pipe and id: set at most once before it is waited for.
template <HardEvent event>
void SetFlag(int32_t id, ascend_sim::At at = ascend_sim::At()) {
    const ascend_sim::Instruction in(sim::pipes_of(event).from, "SetFlag", at);
    in.require(id >= 0 && id < 6, "flag",
               [&] { return "event id " + std::to_string(id) + ": 0 to 5 are free to use"; });
    for (auto& [key, clock] : in.core().flags) {
        (void)clock;
        if ((key & 255) == id && sim::pipes_of(static_cast<HardEvent>(key >> 8)).from == sim::pipes_of(event).from)
            in.fail("flag", "event id " + std::to_string(id) + " of pipe " +
                                ascend_sim::pipe_name(sim::pipes_of(event).from) + " is set twice without a wait");
    }
    in.core().flags[static_cast<int>(event) << 8 | id] = in.core().clock[sim::pipes_of(event).from];
}
template <HardEvent event>
void WaitFlag(int32_t id, ascend_sim::At at = ascend_sim::At()) {
    const ascend_sim::Instruction in(sim::pipes_of(event).to, "WaitFlag", at);
    const auto f = in.core().flags.find(static_cast<int>(event) << 8 | id);
    in.require(f != in.core().flags.end(), "flag",
               [&] { return "event id " + std::to_string(id) + " was not set: the core waits for ever"; });
    in.core().clock[sim::pipes_of(event).to].join(f->second);
    in.core().flags.erase(f);
}
// Within one pipe instructions stay in order here; PIPE_ALL orders every pipe with every other.
template <pipe_t pipe>
void PipeBarrier() {
    if (pipe != PIPE_ALL) return;
    ascend_sim::Core& c = *ascend_sim::g_core;
    ascend_sim::Clock all;
    for (const ascend_sim::Clock& o : c.clock) all.join(o);
    for (ascend_sim::Clock& o : c.clock) o = all;
}
inline void SyncAll() {
    PipeBarrier<PIPE_ALL>();
    ascend_sim::g_core->device->sync_all();
}
template <typename T, CacheLine line, DcciDst destination>
void DataCacheCleanAndInvalid(const GlobalTensor<T>&) {
    ascend_sim::g_core->dirty_cache = false;
}

// ---- atomic accumulation of what MTE3 writes to global memory
template <typename T>
void SetAtomicAdd() {
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, half> || std::is_same_v<T, int32_t> ||
                      std::is_same_v<T, int16_t> || std::is_same_v<T, int8_t> || std::is_same_v<T, bfloat16_t>,
                  "no atomic addition of this type on 2201");
    ascend_sim::g_core->atomic = 1;
}
inline void SetAtomicNone() { ascend_sim::g_core->atomic = 0; }

}  // namespace AscendC

template <pipe_t pipe>
inline void pipe_barrier_impl() {
    AscendC::PipeBarrier<pipe>();
}
#define pipe_barrier(pipe) pipe_barrier_impl<pipe>()
