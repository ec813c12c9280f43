// Profiles of kernels on a device: the gaps between them, and advice that names what their geometry shows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "explain/profile.h"

namespace opwright::explain {
namespace {
using testing::HasSubstr;

// 4 TB/s, 60 TFLOP/s, 2 us to start a kernel.
Profile profile() {
    Profile p;
    p.name = "model";
    p.machine.device = true;
    p.machine.processor = "a GPU";
    p.machine.copies = {{1e7, 8e12}, {1e9, 4e12}};
    p.machine.flops_f32 = 60e12;
    p.machine.flops_f64 = 30e12;
    p.machine.flops_half = 600e12;
    p.machine.matrix_unit = "mma.sync";
    p.machine.dispatch_seconds = 2e-6;
    p.repeats = 10;
    p.seconds = 130e-6;
    p.min_seconds = 120e-6;
    p.device.emplace();
    p.device->kernels = 90e-6;
    p.device->replay_min = 95e-6;
    p.device->upload = 5e-6;
    p.device->download = 7e-6;
    p.source_operators = 3;
    return p;
}
Row row(const Profile& p, double seconds, double bytes, double flops) {
    Row r;
    r.name = "y";
    r.type = "Softmax";
    r.seconds = r.min_seconds = seconds;
    r.bytes = bytes;
    r.simple = flops;
    r.peak = p.machine.flops_f32;
    r.floor_launch = p.machine.dispatch_seconds;
    r.floor_memory = bytes / p.machine.bandwidth(bytes);
    r.floor_arithmetic = flops / r.peak;
    r.schedule = "a block a row";
    r.evidence.launches = {{.kernel = "softmax_kernel<<<1024, 256>>>",
                            .blocks = 1024,
                            .threads = 256,
                            .registers = 40,
                            .occupancy = 0.75,
                            .waves = 8}};
    return r;
}

TEST(DeviceProfile, GapsHaveALineOfTheirOwn) {
    const Profile p = profile();
    const std::string text = to_text(p);
    EXPECT_THAT(text,
                HasSubstr("model: 130 µs a run on a GPU (median of 10, least 120 µs), 0 kernels for 3 operators"));
    EXPECT_THAT(text, HasSubstr("launch gaps: 30.0 µs of the least run (25 %)"));
    EXPECT_THAT(text, HasSubstr("replayed as one graph a run takes"));
    const nlohmann::json j = to_json(p);
    EXPECT_NEAR(j["device"]["launch_gaps_ms"].get<double>(), 0.03, 1e-9);
    EXPECT_NEAR(j["device"]["graph_gaps_ms"].get<double>(), 0.005, 1e-9);
    EXPECT_EQ(j["machine"]["matrix_unit"], "mma.sync");
    Profile mixed = p;
    mixed.device->replay_min = 0;
    mixed.device->no_replay = "some of its kernels run on the cpu";
    EXPECT_EQ(to_json(mixed)["device"]["no_graph"], "some of its kernels run on the cpu");
    EXPECT_EQ(to_json(mixed)["device"].count("graph_ms"), 0u);
}

TEST(DeviceAdvice, NamesWhatBinds) {
    const Profile p = profile();
    EXPECT_THAT(advise_on_device(row(p, 2.5e-6, 1e3, 1e3), p), HasSubstr("Launch-bound: takes 2.50 µs"));
    EXPECT_THAT(advise_on_device(row(p, 300e-6, 1e9, 1e6), p),
                HasSubstr("83 % of what a copy of that size reaches here"));
    EXPECT_THAT(advise_on_device(row(p, 20e-6, 1e6, 1e9), p), HasSubstr("of the measured peak of 60"));
    Row cpu = row(p, 1e-3, 1e6, 1e6);
    cpu.evidence.launches.clear();
    EXPECT_THAT(advise_on_device(cpu, p), HasSubstr("Runs on the cpu"));
}

TEST(DeviceAdvice, FarFromTheFloorItReadsTheGeometry) {
    const Profile p = profile();
    const Row far = row(p, 50e-6, 4e6, 1e6);
    EXPECT_THAT(advise_on_device(far, p),
                HasSubstr("40 registers a thread, 75 % of the threads a multiprocessor holds, 8 waves"));
    EXPECT_THAT(advise_on_device(far, p), HasSubstr("`ncu --set full -k softmax_kernel`"));
    const auto with = [&](auto change) {
        Row r = far;
        change(r.evidence.launches[0]);
        return advise_on_device(r, p);
    };
    EXPECT_THAT(with([](auto& l) { l.blocks = 33, l.waves = 0.25; }),
                HasSubstr("its 33 blocks fill 25 % of the device"));
    EXPECT_THAT(with([](auto& l) { l.waves = 2.25; }),
                HasSubstr("the last of its 3 waves of blocks fills 25 % of the device"));
    EXPECT_THAT(with([](auto& l) { l.occupancy = 0.125; }), HasSubstr("of a multiprocessor's threads"));
    EXPECT_THAT(with([](auto& l) { l.spilled_bytes = 64; }),
                HasSubstr("64 bytes of each thread's values do not fit its registers"));
}

}  // namespace
}  // namespace opwright::explain
