// What is under test: a kernel of a target, somebody else's function, a model. It says which layouts of memory its
// inputs may have, and which widths its sizes should be around.
#pragma once
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "math/program.h"

namespace opwright::verify {

// How an input lies in memory. Tensors of a rank that has no such layout lie dense at an odd address.
enum class Layout : uint8_t {
    Contiguous,  // dense, at a multiple of 64 bytes
    Misaligned,  // dense, at a multiple of the element alone
    Transposed,  // the last two dims changed places in memory
    Sliced,      // a part of larger rows (of rank 1: every second element), at an odd address
    Expanded,    // stride 0 along the first dim, whose elements are then all equal
    Reversed,    // a negative stride along the last dim
};
std::string_view name(Layout l);  // "contiguous", "misaligned", ...
std::vector<Layout> all_layouts();

// A tensor in memory. Strides count elements.
struct View {
    DType dtype = DType::F32;
    Shape shape;
    std::vector<int64_t> strides;
    unsigned char* data = nullptr;     // of element [0, 0, ...]
    std::span<unsigned char> storage;  // all memory that the view lies in, guards included, for those who copy it

    int64_t size() const { return element_count(shape); }
    bool dense() const;
};

class Subject {
public:
    virtual ~Subject() = default;
    // Outputs are dense, and the subject fills them. An error whose message begins with "crashed: " says that the
    // subject ended or hung where it must not, whatever it was given.
    virtual Status run(const math::SymValues& sizes, std::span<const View> inputs, std::span<const View> outputs) = 0;
    // Dense memory of any alignment is what each must take.
    virtual std::vector<Layout> layouts() const { return {Layout::Contiguous, Layout::Misaligned}; }
    // Of its tiles, vectors and blocks; none: unknown.
    virtual std::vector<int64_t> widths() const { return {}; }
    // What is worth knowing of the runs so far and is no fault: "y shares memory with x".
    virtual std::vector<std::string> remarks() const { return {}; }
};

// A subject built from a Program. A function of dense tensors is one; outputs have their dtypes and shapes already.
class Compiled {
public:
    using Dense = std::function<Status(const math::SymValues&, const std::vector<Tensor>&, std::vector<Tensor>&)>;
    template <class F>
        requires std::invocable<F, const math::SymValues&, const std::vector<Tensor>&, std::vector<Tensor>&>
    Compiled(F run, std::vector<int64_t> widths = {}) : subject_(of(Dense(std::move(run)), std::move(widths))) {}
    explicit Compiled(std::shared_ptr<Subject> s) : subject_(std::move(s)) {}

    Subject* operator->() const { return subject_.get(); }
    Status operator()(const math::SymValues& sizes, const std::vector<Tensor>& inputs,
                      std::vector<Tensor>& outputs) const;

private:
    static std::shared_ptr<Subject> of(Dense run, std::vector<int64_t> widths);
    std::shared_ptr<Subject> subject_;
};

// The target under test. The Program outlives what is compiled from it. An error whose message begins with "refused: "
// says what the target has no form for, one with "not run: " why it can't run here; all others are failures.
using Compile = std::function<Result<Compiled>(const math::Program&)>;

}  // namespace opwright::verify
