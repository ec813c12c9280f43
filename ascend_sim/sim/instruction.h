// One instruction while it is checked: where it stands, on which pipe it runs, and what it reads and writes.
#pragma once
#include "device.h"

namespace ascend_sim {

struct UbRange {
    uint32_t address = 0, bytes = 0;
    const Buffer* buffer = nullptr;
    uint32_t generation = 0;
    const char* role = "";
};

class Instruction {
public:
    Instruction(int pipe, const char* name, const At& at) : core_(*g_core), pipe_(pipe), name_(name), at_(at) {
        // An instruction is a step of its pipe's clock. The pipe learns nothing of the scalar unit but that it was
        // issued.
        stamp_ = ++core_.clock[pipe].of[pipe];
    }

    [[noreturn]] void fail(const char* rule, const std::string& what) const {
        throw Hazard({rule, "core " + std::to_string(core_.id) + ", " + file() + ":" + std::to_string(at_.line) + ", " +
                                name_ + ": " + what});
    }
    // `what`: the sentence, or a function that makes it. Sentences with names and numbers are made by functions: a
    // kernel passes millions of checks, and a buffer's name is read from the kernel's source.
    template <typename What>
    void require(bool ok, const char* rule, const What& what) const {
        if (ok) return;
        if constexpr (std::is_invocable_v<What>)
            fail(rule, what());
        else
            fail(rule, what);
    }

    // ---- the unified buffer
    void check(const UbRange& r, uint32_t alignment = kBlock) const {
        require(r.buffer != nullptr, "tensor",
                [&] { return std::string(r.role) + " is a LocalTensor that no queue or buffer gave out"; });
        require(r.buffer->state == BufferState::Plain || r.buffer->generation == r.generation, "stale",
                [&] { return text(r) + " was given back by FreeTensor or EnQue before"; });
        require(r.address % alignment == 0, "alignment", [&] {
            return text(r) + " starts at an address that is no multiple of " + std::to_string(alignment) + " bytes";
        });
        require(r.address + uint64_t{r.bytes} <= r.buffer->address + uint64_t{r.buffer->bytes}, "bounds",
                [&] { return text(r) + " leaves its buffer of " + std::to_string(r.buffer->bytes) + " bytes"; });
    }
    void read(const UbRange& r) const {
        if (r.bytes == 0) return;
        for (uint32_t b = r.address / kBlock; b <= (r.address + r.bytes - 1) / kBlock; ++b) {
            Shadow& s = core_.shadow[b];
            if (s.written && s.pipe != pipe_ && core_.clock[pipe_].of[s.pipe] < s.written)
                fail("order", text(r) + " is read on pipe " + pipe_name(pipe_) + " while nothing says that " +
                                  s.writer + " of line " + std::to_string(s.line) + " on pipe " + pipe_name(s.pipe) +
                                  " is done: EnQue/DeQue or SetFlag/WaitFlag is missing");
            if (pipe_ != PIPE_S) s.read[pipe_] = stamp_;  // the scalar unit has its value before it issues what follows
        }
        const uint8_t* d = core_.defined.data() + r.address;
        if (const auto* hole = static_cast<const uint8_t*>(std::memchr(d, 0, r.bytes)))
            fail("undefined", text(r) + " is read, but byte " +
                                  std::to_string(r.address + (hole - d) - r.buffer->address) +
                                  " of the buffer was never written (padding, a tail, or a reused buffer)");
    }
    void write(const UbRange& r) const {
        if (r.bytes == 0) return;
        for (uint32_t b = r.address / kBlock; b <= (r.address + r.bytes - 1) / kBlock; ++b) {
            Shadow& s = core_.shadow[b];
            if (s.written && s.pipe != pipe_ && core_.clock[pipe_].of[s.pipe] < s.written)
                fail("order", text(r) + " is written on pipe " + pipe_name(pipe_) + " while nothing says that " +
                                  s.writer + " of line " + std::to_string(s.line) + " on pipe " + pipe_name(s.pipe) +
                                  " is done writing it");
            for (int q = 0; q < kPipes; ++q)
                if (q != pipe_ && s.read[q] && core_.clock[pipe_].of[q] < s.read[q])
                    fail("order", text(r) + " is written on pipe " + pipe_name(pipe_) +
                                      " while nothing says that pipe " + pipe_name(q) + " is done reading it");
            s.written = stamp_;
            s.pipe = static_cast<uint8_t>(pipe_);
            s.writer = name_;
            s.line = at_.line;
        }
        std::memset(core_.defined.data() + r.address, 1, r.bytes);
    }
    // Marks bytes that the instruction leaves undefined.
    void undefine(uint32_t address, uint32_t bytes) const { std::memset(core_.defined.data() + address, 0, bytes); }
    // Source and destination may be the same bytes or none in common.
    void apart(const UbRange& d, const UbRange& s) const {
        if (d.bytes == 0 || s.bytes == 0 || (d.address == s.address && d.bytes == s.bytes)) return;
        if (d.address < s.address + s.bytes && s.address < d.address + d.bytes)
            fail("overlap", text(d) + " and " + text(s) + " overlap in part");
    }

    // ---- global memory
    Gm& global(const void* p, uint64_t bytes, const char* role) const {
        Gm* g = core_.device->find(p, bytes);
        if (g) return *g;
        Gm* near = core_.device->near(p);
        fail("gm_bounds", std::string(role) + " [" + offset(near, p) + ", +" + std::to_string(bytes) + ") bytes " +
                              (near ? "leave the " + std::to_string(near->bytes) + " bytes of " + near->name
                                    : "lie in no buffer of global memory"));
    }
    void read_global(const void* p, uint64_t bytes, const char* role) const {
        if (bytes == 0) return;
        Gm& g = global(p, bytes, role);
        if (g.shadow.empty()) return;
        const uint64_t begin = static_cast<uint64_t>(static_cast<const uint8_t*>(p) - g.data);
        for (uint64_t i = begin; i < begin + bytes; ++i) {
            GmShadow& s = g.shadow[i];
            if (!s.defined)
                fail("gm_undefined", "byte " + std::to_string(i) + " of " + g.name + " is read and was never written");
            if (s.writer >= 0 && s.writer != core_.id)
                fail("gm_race", "byte " + std::to_string(i) + " of " + g.name + " is read, and core " +
                                    std::to_string(s.writer) + " writes it with no SyncAll between");
            if (s.written && s.write_pipe != pipe_ && core_.clock[pipe_].of[s.write_pipe] < s.written)
                fail("order", "byte " + std::to_string(i) + " of " + g.name + " is read on pipe " + pipe_name(pipe_) +
                                  " while nothing says that pipe " + pipe_name(s.write_pipe) + " is done writing it");
            s.reader = s.reader == -1 || s.reader == core_.id ? static_cast<int16_t>(core_.id) : int16_t{-2};
            if (pipe_ == PIPE_S) continue;  // the scalar unit has its value before it issues what follows
            s.read = stamp_;
            s.read_pipe = static_cast<uint8_t>(pipe_);
        }
    }
    void write_global(void* p, uint64_t bytes, const char* role) const {
        if (bytes == 0) return;
        Gm& g = global(p, bytes, role);
        require(!g.shadow.empty(), "gm_read_only", [&] { return g.name + " is an input and is written"; });
        const uint64_t begin = static_cast<uint64_t>(static_cast<uint8_t*>(p) - g.data);
        const bool atomic = core_.atomic != 0;
        for (uint64_t i = begin; i < begin + bytes; ++i) {
            GmShadow& s = g.shadow[i];
            if (s.writer >= 0 && s.writer != core_.id && !(atomic && s.atomic))
                fail("gm_race", "byte " + std::to_string(i) + " of " + g.name + " is written, and core " +
                                    std::to_string(s.writer) + " writes it too");
            if (s.reader == -2 || (s.reader >= 0 && s.reader != core_.id))
                fail("gm_race", "byte " + std::to_string(i) + " of " + g.name +
                                    " is written, and another core reads it with no SyncAll between");
            if (s.written && s.write_pipe != pipe_ && core_.clock[pipe_].of[s.write_pipe] < s.written)
                fail("order", "byte " + std::to_string(i) + " of " + g.name + " is written on pipe " +
                                  pipe_name(pipe_) + " while nothing says that pipe " + pipe_name(s.write_pipe) +
                                  " is done writing it");
            if (s.read && s.read_pipe != pipe_ && core_.clock[pipe_].of[s.read_pipe] < s.read)
                fail("order", "byte " + std::to_string(i) + " of " + g.name + " is written on pipe " +
                                  pipe_name(pipe_) + " while nothing says that pipe " + pipe_name(s.read_pipe) +
                                  " is done reading it");
            s.writer = static_cast<int16_t>(core_.id);
            s.written = stamp_;
            s.write_pipe = static_cast<uint8_t>(pipe_);
            s.atomic = atomic;
            s.defined = true;
        }
    }

    Core& core() const { return core_; }
    std::string text(const UbRange& r) const {
        const uint32_t from = r.address - r.buffer->address;
        return std::string(r.role) + " " + r.buffer->name() + " bytes [" + std::to_string(from) + ", " +
               std::to_string(uint64_t{from} + r.bytes) + ")";
    }

private:
    std::string file() const {
        const std::string f = at_.file;
        return f.substr(f.rfind('/') + 1);
    }
    static std::string offset(Gm* g, const void* p) {
        return g ? std::to_string(static_cast<const uint8_t*>(p) - g->data) : "?";
    }

    Core& core_;
    int pipe_;
    const char* name_;
    At at_;
    uint32_t stamp_;
};

}  // namespace ascend_sim
