// Any bytes as .npy, .npz, PNG or JPEG: refused or read, never a crash, never memory beyond what the bytes can hold.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "io/npy.h"
#include "io/npz.h"
#include "io/picture.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace opwright;
    const std::string bytes(reinterpret_cast<const char*>(data), size);
    if (const auto t = io::parse_npy(bytes, "input"); t.ok()) {
        const auto again = io::parse_npy(io::npy_bytes(*t), "output");
        if (!again.ok() || again->shape() != t->shape() || again->dtype() != t->dtype()) std::abort();
    }
    (void)io::parse_npz(bytes, "input");
    (void)io::parse_picture(bytes, "input");
    return 0;
}
