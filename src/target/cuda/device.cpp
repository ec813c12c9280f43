#include "target/cuda/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

namespace opwright::target::cuda {
namespace {
// Attributes as numbered in the driver's manual.
constexpr int kClock = 13, kMultiprocessors = 16, kL2Bytes = 38, kThreads = 39, kMajor = 75, kMinor = 76,
              kSharedOptIn = 97;
constexpr int kFunctionShared = 1, kFunctionLocal = 3, kFunctionRegisters = 4, kFunctionDynamicShared = 8;
constexpr unsigned kNonBlocking = 1;
constexpr size_t kGranule = 512;

const Driver& api() { return *driver().value(); }

// Blocks of the pool come in few sizes, so that a model run at another size finds memory again: powers of two and
// their halves between.
size_t size_class(size_t bytes) {
    size_t c = kGranule;
    while (c < bytes) {
        if (c + c / 2 >= bytes && c >= 2 * kGranule) return c + c / 2;
        c *= 2;
    }
    return c;
}
}  // namespace

std::string DeviceInfo::arch() const { return fmt::format("sm_{}{}{}", major, minor, major >= 9 ? "a" : ""); }

struct Device::Pool {
    struct Block {
        DevicePointer address = 0;
        std::shared_ptr<Stream> stream;  // of the work that may still use it
        std::shared_ptr<Event> last;     // recorded there when it was let go
    };
    std::mutex mutex;
    std::multimap<size_t, Block> free;
    size_t free_bytes = 0, most = 0;
};

Stream::~Stream() {
    if (handle_) api().StreamDestroy(handle_);
}
Status Stream::wait(const std::string& what) const {
    return check(api().StreamSynchronize(handle_), what, "cuStreamSynchronize");
}

Event::~Event() {
    if (handle_) api().EventDestroy(handle_);
}
Status Event::record(const Stream& s) const {
    return check(api().EventRecord(handle_, s.handle()), "timing", "cuEventRecord");
}
Result<double> Event::since(const Event& start) const {
    OPW_CHECK(check(api().EventSynchronize(handle_), "timing", "cuEventSynchronize"));
    float ms = 0;
    OPW_CHECK(check(api().EventElapsedTime(&ms, start.handle_, handle_), "timing", "cuEventElapsedTime"));
    return static_cast<double>(ms);
}

class Module {
public:
    explicit Module(CUmod_st* h) : handle(h) {}
    ~Module() { api().ModuleUnload(handle); }
    Module(const Module&) = delete;
    CUmod_st* handle;
};

Result<Device*> Device::open() {
    OPW_TRY(const Driver* d, driver());
    int count = 0;
    OPW_CHECK(check(d->DeviceGetCount(&count), "looking for a GPU", "cuDeviceGetCount"));
    const char* chosen = std::getenv("OPWRIGHT_CUDA_DEVICE");
    const int number = chosen ? std::atoi(chosen) : 0;
    if (number < 0 || number >= count)
        return Diagnostic(count == 0 ? "The NVIDIA driver is here, but it finds no GPU."
                                     : fmt::format("There is no GPU number {}: {} are here.", number, count),
                          {}, "Set OPWRIGHT_CUDA_DEVICE to the number of a GPU that nvidia-smi lists.");
    static Device device;
    int handle = 0;
    OPW_CHECK(check(d->DeviceGet(&handle, number), "opening the GPU", "cuDeviceGet"));
    OPW_CHECK(
        check(d->DevicePrimaryCtxRetain(&device.context_, handle), "opening the GPU", "cuDevicePrimaryCtxRetain"));
    char name[256] = "";
    d->DeviceGetName(name, sizeof name, handle);
    device.info_.name = name;
    const auto attribute = [&](int& to, int which) { d->DeviceGetAttribute(&to, which, handle); };
    int l2 = 0;
    attribute(device.info_.major, kMajor);
    attribute(device.info_.minor, kMinor);
    attribute(device.info_.multiprocessors, kMultiprocessors);
    attribute(device.info_.shared_bytes, kSharedOptIn);
    attribute(device.info_.threads, kThreads);
    attribute(l2, kL2Bytes);
    device.info_.l2_bytes = l2;
    int kilohertz = 0;
    attribute(kilohertz, kClock);
    device.info_.clock_hz = 1e3 * kilohertz;
    size_t total = 0;
    d->DeviceTotalMem(&total, handle);
    device.info_.memory_bytes = static_cast<int64_t>(total);
    d->DriverGetVersion(&device.info_.driver);
    device.driver_ = d;
    device.pool_ = std::make_shared<Pool>();
    device.pool_->most = total / 4;
    if (device.info_.major < 8)
        return Diagnostic(fmt::format("{} has compute capability {}.{}; Opwright's kernels need 8.0 or later.", name,
                                      device.info_.major, device.info_.minor));
    return &device;
}

Result<Device*> Device::get() {
    static const Result<Device*> device = open();
    if (device.ok()) OPW_CHECK((*device)->enter());
    return device;
}

Status Device::enter() const { return check(driver_->CtxSetCurrent(context_), info_.name, "cuCtxSetCurrent"); }

Result<Memory> Device::allocate(size_t bytes, const std::string& what, std::shared_ptr<Stream> stream) {
    const size_t size = size_class(bytes);
    Pool::Block block;
    {
        const std::lock_guard lock(pool_->mutex);
        // Best a block whose last work was on the same stream: nobody needs to wait.
        auto [first, last] = pool_->free.equal_range(size);
        const auto same = std::find_if(first, last, [&](const auto& x) { return x.second.stream == stream; });
        const auto it = same != last ? same : first;
        if (it != last) {
            block = std::move(it->second);
            pool_->free.erase(it);
            pool_->free_bytes -= size;
        }
    }
    if (block.address && block.last && block.stream != stream) {
        OPW_CHECK(stream ? check(driver_->StreamWaitEvent(stream->handle(), block.last->handle_, 0), what,
                                 "cuStreamWaitEvent")
                         : check(driver_->EventSynchronize(block.last->handle_), what, "cuEventSynchronize"));
    }
    if (!block.address && driver_->MemAlloc(&block.address, size) != 0) {
        trim();  // what the pool holds may be enough
        OPW_CHECK(check(driver_->MemAlloc(&block.address, size),
                        fmt::format("{} ({:.1f} MB of device memory)", what, static_cast<double>(size) / 1e6),
                        "cuMemAlloc"));
    }
    block.stream = std::move(stream);
    if (block.stream && !block.last) { OPW_TRY(block.last, event()); }
    Memory m;
    m.address_ = block.address;
    m.bytes_ = size;
    m.keep_ = std::shared_ptr<void>(nullptr, [this, size, block, pool = pool_](void*) mutable {
        // Any thread may let go, also one that never used the device.
        (void)enter();
        if (block.stream) (void)block.last->record(*block.stream);
        {
            const std::lock_guard lock(pool->mutex);
            if (pool->free_bytes + size <= pool->most) {
                pool->free_bytes += size;
                pool->free.emplace(size, std::move(block));
                return;
            }
        }
        driver_->MemFree(block.address);  // waits for the work that uses it
    });
    return m;
}

void Device::trim() {
    const std::lock_guard lock(pool_->mutex);
    for (auto& [size, block] : pool_->free) driver_->MemFree(block.address);  // waits for the work that uses it
    pool_->free.clear();
    pool_->free_bytes = 0;
}

int Device::resident_blocks(const Function& f, const LaunchShape& shape) const {
    int n = 0;
    driver_->OccupancyMaxActiveBlocksPerMultiprocessor(&n, f.handle, static_cast<int>(shape.threads),
                                                       shape.shared_bytes);
    return n;
}

int Device::resident_clusters(const Function& f, const LaunchShape& shape) const {
    int n = 0;
    const LaunchConfig c{{shape.blocks, 1, 1}, {shape.threads, 1, 1}, shape.shared_bytes, nullptr, nullptr, 0};
    const bool known = driver_->OccupancyMaxActiveClusters && !driver_->OccupancyMaxActiveClusters(&n, f.handle, &c);
    return known ? n : 0;
}

Result<std::shared_ptr<Stream>> Device::stream() {
    std::shared_ptr<Stream> s(new Stream);
    OPW_CHECK(check(driver_->StreamCreate(&s->handle_, kNonBlocking), info_.name, "cuStreamCreate"));
    return s;
}
Result<std::shared_ptr<Event>> Device::event() {
    std::shared_ptr<Event> e(new Event);
    OPW_CHECK(check(driver_->EventCreate(&e->handle_, 0), info_.name, "cuEventCreate"));
    return e;
}

Result<std::shared_ptr<Module>> Device::load(const std::string& cubin, const std::string& what) {
    CUmod_st* m = nullptr;
    OPW_CHECK(check(driver_->ModuleLoadData(&m, cubin.data()), what, "cuModuleLoadData"));
    return std::make_shared<Module>(m);
}

Result<Function> Device::function(const std::shared_ptr<Module>& m, const std::string& name, int dynamic_shared) {
    Function f{.module = m};
    OPW_CHECK(check(driver_->ModuleGetFunction(&f.handle, m->handle, name.c_str()), name, "cuModuleGetFunction"));
    driver_->FuncGetAttribute(&f.registers, kFunctionRegisters, f.handle);
    driver_->FuncGetAttribute(&f.local_bytes, kFunctionLocal, f.handle);
    driver_->FuncGetAttribute(&f.shared_bytes, kFunctionShared, f.handle);
    if (f.shared_bytes + dynamic_shared > info_.shared_bytes)
        return Diagnostic(fmt::format("{} needs {} bytes of shared memory a block, but {} has {}.", name,
                                      f.shared_bytes + dynamic_shared, info_.name, info_.shared_bytes));
    constexpr int kWithoutAsking = 48 << 10;
    if (dynamic_shared > kWithoutAsking)
        OPW_CHECK(check(driver_->FuncSetAttribute(f.handle, kFunctionDynamicShared, dynamic_shared), name,
                        "cuFuncSetAttribute"));
    return f;
}

Status Device::upload(DevicePointer to, const void* from, size_t bytes, const Stream& s,
                      const std::string& what) const {
    return bytes == 0 ? ok_status()
                      : check(driver_->MemcpyHtoDAsync(to, from, bytes, s.handle()), what, "cuMemcpyHtoDAsync");
}
Status Device::download(void* to, DevicePointer from, size_t bytes, const Stream& s, const std::string& what) const {
    return bytes == 0 ? ok_status()
                      : check(driver_->MemcpyDtoHAsync(to, from, bytes, s.handle()), what, "cuMemcpyDtoHAsync");
}
Status Device::copy(DevicePointer to, DevicePointer from, size_t bytes, const Stream& s,
                    const std::string& what) const {
    return bytes == 0 ? ok_status()
                      : check(driver_->MemcpyDtoDAsync(to, from, bytes, s.handle()), what, "cuMemcpyDtoDAsync");
}
Status Device::fill(DevicePointer to, unsigned char value, size_t bytes, const Stream& s,
                    const std::string& what) const {
    return bytes == 0 ? ok_status()
                      : check(driver_->MemsetD8Async(to, value, bytes, s.handle()), what, "cuMemsetD8Async");
}

Status Device::launch(const Function& f, const LaunchShape& shape, void** arguments, const Stream& s,
                      const std::string& what) const {
    if (shape.awaits && driver_->LaunchKernelEx && info_.major >= 9) {
        LaunchAttribute early{kProgrammaticStreamSerialization};
        early.value[0] = 1;
        const LaunchConfig config{{shape.blocks, 1, 1}, {shape.threads, 1, 1}, shape.shared_bytes, s.handle(), &early, 1};
        return check(driver_->LaunchKernelEx(&config, f.handle, arguments, nullptr), what, "cuLaunchKernelEx");
    }
    return check(driver_->LaunchKernel(f.handle, shape.blocks, 1, 1, shape.threads, 1, 1, shape.shared_bytes,
                                       s.handle(), arguments, nullptr),
                 what, "cuLaunchKernel");
}

}  // namespace opwright::target::cuda
