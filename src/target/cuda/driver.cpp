#include "target/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace opwright::target::cuda {
namespace {

struct Opened {
    Driver driver{};
    std::string failure;
};

Opened open_driver() {
    Opened o;
    void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        o.failure = "There is no NVIDIA driver here: the library libcuda.so.1 cannot be opened.";
        return o;
    }
    const auto resolve = [&](auto& to, const char* symbol) {
        void* f = ::dlsym(library, symbol);
        if (!f && o.failure.empty())
            o.failure = fmt::format("The NVIDIA driver here is too old: it has no function {}.", symbol);
        to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(f);
    };
    Driver& d = o.driver;
    resolve(d.Init, "cuInit");
    resolve(d.DriverGetVersion, "cuDriverGetVersion");
    resolve(d.GetErrorName, "cuGetErrorName");
    resolve(d.GetErrorString, "cuGetErrorString");
    resolve(d.DeviceGetCount, "cuDeviceGetCount");
    resolve(d.DeviceGet, "cuDeviceGet");
    resolve(d.DeviceGetName, "cuDeviceGetName");
    resolve(d.DeviceGetAttribute, "cuDeviceGetAttribute");
    resolve(d.DeviceTotalMem, "cuDeviceTotalMem_v2");
    resolve(d.DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
    resolve(d.CtxSetCurrent, "cuCtxSetCurrent");
    resolve(d.ModuleLoadData, "cuModuleLoadData");
    resolve(d.ModuleUnload, "cuModuleUnload");
    resolve(d.ModuleGetFunction, "cuModuleGetFunction");
    resolve(d.FuncGetAttribute, "cuFuncGetAttribute");
    resolve(d.FuncSetAttribute, "cuFuncSetAttribute");
    resolve(d.MemAlloc, "cuMemAlloc_v2");
    resolve(d.MemFree, "cuMemFree_v2");
    resolve(d.MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2");
    resolve(d.MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2");
    resolve(d.MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2");
    resolve(d.MemsetD8Async, "cuMemsetD8Async");
    resolve(d.StreamCreate, "cuStreamCreate");
    resolve(d.StreamDestroy, "cuStreamDestroy_v2");
    resolve(d.StreamSynchronize, "cuStreamSynchronize");
    resolve(d.EventCreate, "cuEventCreate");
    resolve(d.EventDestroy, "cuEventDestroy_v2");
    resolve(d.EventRecord, "cuEventRecord");
    resolve(d.EventSynchronize, "cuEventSynchronize");
    resolve(d.EventElapsedTime, "cuEventElapsedTime");
    resolve(d.LaunchKernel, "cuLaunchKernel");
    if (!o.failure.empty()) return o;
    if (const int code = d.Init(0)) {
        const char* text = nullptr;
        d.GetErrorString(code, &text);
        o.failure = fmt::format("The NVIDIA driver does not start: {}.", text ? text : "it gives no reason");
    }
    return o;
}

const Opened& opened() {
    static const Opened o = open_driver();
    return o;
}
}  // namespace

Result<const Driver*> driver() {
    const Opened& o = opened();
    if (o.failure.empty()) return &o.driver;
    return Diagnostic(o.failure, {},
                      "Run it on a machine with an NVIDIA GPU and its driver, or choose another target.");
}

Status check(int code, const std::string& what, const char* call) {
    if (code == 0) return ok_status();
    const Driver& d = opened().driver;
    const char *name = nullptr, *text = nullptr;
    d.GetErrorName(code, &name);
    d.GetErrorString(code, &text);
    Diagnostic r(fmt::format("{}: {} failed with {} ({}).", what, call, name ? name : std::to_string(code),
                             text ? text : "no text"));
    constexpr int kOutOfMemory = 2, kIllegalAddress = 700;
    if (code == kOutOfMemory)
        r.with_next("Free memory of the GPU (nvidia-smi shows who holds it), or use smaller tensors.");
    if (code == kIllegalAddress)
        r.with_next(
            "This is a fault in the generated kernel: please report the declaration and the sizes. "
            "compute-sanitizer names the access.");
    return r;
}

}  // namespace opwright::target::cuda
