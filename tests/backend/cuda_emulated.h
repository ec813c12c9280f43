// Generated CUDA kernels run on the CPU (cuda_emulation.h): compiled by the host's compiler, many in one file, so that
// the whole operator library can be verified where there is no GPU.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "target/cuda/launch.h"
#include "target/cuda/tiles.h"
#include "target/host_compiler.h"
#include "verify/check.h"

namespace opwright::verify {

// Used in three steps: run the check with recorder(), which notes which variants its sizes need (its reports are void);
// build(); run the same check with target().
class EmulatedCuda {
public:
    // In place of what the target chooses; before anything is recorded.
    void choose(const target::cuda::LowerOptions& o) { options_ = o; }
    // On a device that has clusters of blocks; before anything is recorded.
    void allow_clusters() { clusters_ = true; }
    // Of the kernels' source, or of the functions that they call; before anything is recorded.
    void edit(std::function<void(std::string&)> e) { edit_ = std::move(e); }
    void edit_helpers(std::function<void(std::string&)> e) { edit_helpers_ = std::move(e); }
    Compile recorder();
    // Compiles what was recorded since the last call, in files of about `lines` lines, two at a time.
    Status build(size_t lines = 12000);
    Compile target();
    size_t programs() const { return programs_.size(); }
    size_t variants() const { return entries_.size(); }

private:
    struct Entry {
        bool built = false;
        void (*run)(void** arguments, unsigned blocks, unsigned threads, unsigned shared) = nullptr;
    };
    struct Kept {
        std::shared_ptr<const target::cuda::CudaProgram> program;
        std::set<std::pair<std::vector<std::pair<std::string, int64_t>>, bool>> macros;  // and whether INDEX is wide
    };
    Result<Kept*> keep(const math::Program& p);
    static std::string name_of(const std::string& key, const target::cuda::Variant& v, bool wide);
    Status run(const Kept& k, const std::string& key, const math::SymValues& sizes, const std::vector<Tensor>& in,
               std::vector<Tensor>& out);

    target::cuda::LowerOptions options_;
    bool clusters_ = false;
    std::function<void(std::string&)> edit_, edit_helpers_;
    std::map<std::string, Kept> programs_;  // by canonical text
    std::map<std::string, Entry> entries_;  // by program, kernel and macros
    std::vector<std::shared_ptr<target::SharedLibrary>> libraries_;
};

}  // namespace opwright::verify
