// The CUDA driver (libcuda.so.1), opened when first asked for, so that one binary runs with and without a GPU. The few
// types and functions of its C interface that Opwright uses are declared here; no CUDA header is needed.
#pragma once
#include <cstddef>
#include <string>

#include "base/result.h"

struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;

namespace opwright::target::cuda {

using DevicePointer = unsigned long long;

// CUlaunchAttribute; its value is a union of 64 bytes.
struct LaunchAttribute {
    int id;
    int padding = 0;
    int value[16] = {};
};
inline constexpr int kProgrammaticStreamSerialization = 6;  // CU_LAUNCH_ATTRIBUTE_..., of CUDA 11.8

// CUlaunchConfig.
struct LaunchConfig {
    unsigned blocks[3], threads[3], shared_bytes;
    CUstream_st* stream;
    LaunchAttribute* attributes;
    unsigned attribute_count;
};

// Function pointers named as in the driver's manual, without the prefix `cu`. 0 means success everywhere.
struct Driver {
    int (*Init)(unsigned);
    int (*DriverGetVersion)(int*);
    int (*GetErrorName)(int, const char**);
    int (*GetErrorString)(int, const char**);
    int (*DeviceGetCount)(int*);
    int (*DeviceGet)(int*, int);
    int (*DeviceGetName)(char*, int, int);
    int (*DeviceGetAttribute)(int*, int, int);
    int (*DeviceTotalMem)(size_t*, int);
    int (*DevicePrimaryCtxRetain)(CUctx_st**, int);
    int (*CtxSetCurrent)(CUctx_st*);
    int (*ModuleLoadData)(CUmod_st**, const void*);
    int (*ModuleUnload)(CUmod_st*);
    int (*ModuleGetFunction)(CUfunc_st**, CUmod_st*, const char*);
    int (*FuncGetAttribute)(int*, int, CUfunc_st*);
    int (*FuncSetAttribute)(CUfunc_st*, int, int);
    int (*MemAlloc)(DevicePointer*, size_t);
    int (*MemFree)(DevicePointer);
    int (*MemcpyHtoDAsync)(DevicePointer, const void*, size_t, CUstream_st*);
    int (*MemcpyDtoHAsync)(void*, DevicePointer, size_t, CUstream_st*);
    int (*MemcpyDtoDAsync)(DevicePointer, DevicePointer, size_t, CUstream_st*);
    int (*MemsetD8Async)(DevicePointer, unsigned char, size_t, CUstream_st*);
    int (*StreamCreate)(CUstream_st**, unsigned);
    int (*StreamDestroy)(CUstream_st*);
    int (*StreamSynchronize)(CUstream_st*);
    int (*StreamWaitEvent)(CUstream_st*, CUevent_st*, unsigned);
    int (*StreamBeginCapture)(CUstream_st*, int);
    int (*StreamEndCapture)(CUstream_st*, CUgraph_st**);
    int (*GraphInstantiateWithFlags)(CUgraphExec_st**, CUgraph_st*, unsigned long long);
    int (*GraphLaunch)(CUgraphExec_st*, CUstream_st*);
    int (*GraphDestroy)(CUgraph_st*);
    int (*GraphExecDestroy)(CUgraphExec_st*);
    int (*LaunchHostFunc)(CUstream_st*, void (*)(void*), void*);
    int (*OccupancyMaxActiveBlocksPerMultiprocessor)(int*, CUfunc_st*, int, size_t);
    int (*LaunchKernelEx)(const LaunchConfig*, CUfunc_st*, void**, void**);        // null before CUDA 11.8
    int (*OccupancyMaxActiveClusters)(int*, CUfunc_st*, const LaunchConfig*);  // null before CUDA 11.8
    int (*EventCreate)(CUevent_st**, unsigned);
    int (*EventDestroy)(CUevent_st*);
    int (*EventRecord)(CUevent_st*, CUstream_st*);
    int (*EventSynchronize)(CUevent_st*);
    int (*EventElapsedTime)(float*, CUevent_st*, CUevent_st*);
    int (*LaunchKernel)(CUfunc_st*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream_st*,
                        void**, void**);
};

// Opens and initialises the driver once for the process. Error: why there is none, as a sentence.
Result<const Driver*> driver();

// Error: "WHAT: CALL failed with CUDA_ERROR_NAME (the driver's text).", and the next step for that error. `what` names
// the operator or the action.
Status check(int code, const std::string& what, const char* call);

// What to do about an error of this code (CUresult).
const char* next_step(int code);

}  // namespace opwright::target::cuda
