// Memory that is used again and again: large blocks go back to the pool instead of to the system, which would hand them
// out as fresh pages, each paid for at its first touch.
#pragma once
#include <cstddef>
#include <memory>

namespace opwright::runtime {

class BufferPool {
public:
    // `keep`: bytes of free blocks that the pool holds on to at most.
    explicit BufferPool(size_t keep = size_t{1} << 30);
    // 64-byte aligned memory of at least `bytes`; goes back to the pool with the last owner, which may outlive the pool.
    // Throws std::bad_alloc where the system has no more.
    std::shared_ptr<void> take(size_t bytes);

private:
    struct Free;
    std::shared_ptr<Free> free_;
};

}  // namespace opwright::runtime
