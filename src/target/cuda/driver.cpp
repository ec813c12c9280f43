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
    resolve(d.StreamWaitEvent, "cuStreamWaitEvent");
    resolve(d.StreamBeginCapture, "cuStreamBeginCapture_v2");
    resolve(d.StreamEndCapture, "cuStreamEndCapture");
    resolve(d.GraphInstantiateWithFlags, "cuGraphInstantiateWithFlags");
    resolve(d.GraphLaunch, "cuGraphLaunch");
    resolve(d.GraphDestroy, "cuGraphDestroy");
    resolve(d.GraphExecDestroy, "cuGraphExecDestroy");
    resolve(d.LaunchHostFunc, "cuLaunchHostFunc");
    resolve(d.OccupancyMaxActiveBlocksPerMultiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    resolve(d.EventCreate, "cuEventCreate");
    resolve(d.EventDestroy, "cuEventDestroy_v2");
    resolve(d.EventRecord, "cuEventRecord");
    resolve(d.EventSynchronize, "cuEventSynchronize");
    resolve(d.EventElapsedTime, "cuEventElapsedTime");
    resolve(d.LaunchKernel, "cuLaunchKernel");
    d.LaunchKernelEx = reinterpret_cast<decltype(d.LaunchKernelEx)>(::dlsym(library, "cuLaunchKernelEx"));
    d.OccupancyMaxActiveClusters = reinterpret_cast<decltype(d.OccupancyMaxActiveClusters)>(
        ::dlsym(library, "cuOccupancyMaxActiveClusters"));
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

const char* next_step(int code) {
    // Codes as numbered in the driver's manual.
    switch (code) {
        case 1: return "This is a fault in Opwright: please report the declaration and the sizes.";
        case 2: return "Free memory of the GPU (nvidia-smi shows who holds it), or use smaller tensors.";
        case 3:
        case 4: return "The process is about to end, or its GPU was reset: start it again.";
        case 46: return "Another process has the GPU for itself: wait for it, or see `nvidia-smi -q -d COMPUTE`.";
        case 100:
        case 101: return "See which GPUs `nvidia-smi` lists, and what CUDA_VISIBLE_DEVICES says.";
        case 200:
        case 209:
        case 218:
        case 222:
            return "The kernel was compiled for another GPU or by a newer compiler than the driver knows: update the "
                   "driver, or name an older NVRTC in OPWRIGHT_NVRTC.";
        case 214:
            return "The GPU's memory has an error that can't be corrected (`nvidia-smi -q -d ECC`): reset it, or use "
                   "another.";
        case 700:
        case 715:
        case 716:
        case 717:
        case 718:
        case 719:
            return "This is a fault in a generated kernel: please report the declaration and the sizes. With "
                   "CUDA_LAUNCH_BLOCKING=1 the message names the operator; compute-sanitizer names the access.";
        case 701:
            return "A block takes more registers or shared memory than the GPU has: please report the declaration, the "
                   "sizes and the GPU.";
        case 702:
            return "The GPU drives a display, which allows kernels a few seconds: use smaller tensors, or another GPU.";
        case 802:
        case 803: return "The driver and the GPU's firmware do not fit together: update the driver.";
        case 900:
        case 901:
        case 906: return "Work can't be captured as a graph here: run without it.";
        default: return "`opwright doctor` shows the GPU, its driver and what does not fit together.";
    }
}

Status check(int code, const std::string& what, const char* call) {
    if (code == 0) return ok_status();
    const Driver& d = opened().driver;
    const char *name = nullptr, *text = nullptr;
    d.GetErrorName(code, &name);
    d.GetErrorString(code, &text);
    Diagnostic r(fmt::format("{}: {} failed with {} ({}).", what, call, name ? name : std::to_string(code),
                             text ? text : "no text"));
    r.with_next(next_step(code));
    return r;
}

}  // namespace opwright::target::cuda
