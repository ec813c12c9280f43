#include "target/ascend/ascend.h"

#include "target/ascend/operator.h"
#include "target/ascend/project.h"
#include "target/ascend/simulate.h"

namespace opwright::target::ascend {
using namespace math;

namespace {

class AscendTarget : public Target {
public:
    std::string_view name() const override { return "ascend"; }
    std::string_view about() const override {
        return "Ascend C for __NPU_ARCH__ 2201 (Atlas A2 and A3), run on the functional simulator";
    }
    Result<Emission> emit(const Program& p, const EmitOptions& o) const override {
        OPW_TRY(Operator op, write_operator(p, o));
        Emission e;
        e.files.push_back({op.name + "_kernel.h", op.kernels});
        for (SourceFile& f : project_files(op, p, o)) e.files.push_back(std::move(f));
        e.facts = std::move(op.facts);
        return e;
    }
    Result<std::string> level(const Program& p, const std::string& level, const EmitOptions& o) const override {
        OPW_TRY(const Operator op, write_operator(p, o));
        if (level == "schedule-json") return op.plans[0].schedule_json;
        std::string r;
        for (const Plan& plan : op.plans) {
            if (op.plans.size() > 1) r += plan.whole ? "# rows that fit the unified buffer\n" : "# longer rows\n";
            r += level == "tile" ? plan.tile : plan.schedule;
        }
        return r;
    }
    std::string cannot_run() const override {
        return host_compiler(true).empty() ? "no C++ compiler (c++, g++ or clang++) is on the PATH" : "";
    }
    std::string runs_on() const override { return "the functional simulator"; }
    Result<std::unique_ptr<Runnable>> build(const Program& p, const EmitOptions& o) const override {
        OPW_TRY(Operator op, write_operator(p, o));
        if (o.edit) o.edit(op.kernels);
        std::vector<SourceFile> files = simulator_headers();
        files.push_back({"driver.cpp", driver_text(op, p, "run_operator", op.kernels)});
        OPW_TRY(auto library,
                build_shared_library(files, "driver.cpp", {"-std=c++17", "-O1", "-w", "-ffp-contract=off"}));
        return make_runnable(std::move(library), "run_operator", op, p);
    }
};
}  // namespace

const Target& ascend_target() {
    static const AscendTarget target;
    return target;
}

}  // namespace opwright::target::ascend
