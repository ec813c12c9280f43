// opwright run: a model or an operator, on files or on random values.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/schedule_file.h"
#include "cli/subject.h"
#include "io/file.h"

namespace opwright::cli {
namespace {

struct Flags {
    std::string target, op, schedule;
    TargetFlags on;
    std::vector<std::string> output;
    DataFlags data;
    ExecutionFlags execution;
    bool json = false;
};

Result<std::vector<io::NamedTensor>> results(const Flags& f, std::vector<std::string>& notes, std::vector<std::string>& place) {
    std::vector<io::NamedTensor> r;
    CompileOptions options = f.execution.options();
    OPW_CHECK(f.on.apply(options));
    if (!f.schedule.empty()) { OPW_TRY(options.execution.cpu.schedule, read_schedule(f.schedule, f.target)); }
    if (is_model(f.target)) {
        OPW_TRY(auto model, Model::load(f.target, options, f.execution.pool()));
        OPW_TRY(const NamedInputs inputs, model_inputs(*model, f.data, notes));
        OPW_TRY(auto outputs, model->run(inputs));
        OPW_TRY(const auto compiled, model->version(inputs));
        place = f.on.placement(*compiled);
        OPW_TRY(const auto arguments, model->arguments(*compiled, inputs));
        for (std::string& line : tuning_notes(*compiled, arguments)) place.push_back(std::move(line));
        for (size_t i = 0; i < outputs.size(); ++i) r.push_back({model->outputs()[i].name, std::move(outputs[i])});
        return r;
    }
    OPW_TRY(const auto op, load_operator(f.target, f.op));
    OPW_TRY(const Call call, operator_call(op.first, op.second, f.data, options, f.execution.pool()));
    if (f.data.input.empty())
        for (size_t i = 0; i < call.inputs.size(); ++i)
            if (call.inputs[i].defined())
                notes.push_back(fmt::format("{}: {}{} of random values (seed {})", call.names[std::min(i, call.names.size() - 1)],
                                            name(call.inputs[i].dtype()), to_string(call.inputs[i].shape()), f.data.seed));
    OPW_TRY(const auto version, call.op->version(call.inputs));
    OPW_TRY(auto outputs, version.compiled->executable->run(version.arguments, call.op->pool()));
    place = f.on.placement(*version.compiled);
    for (std::string& line : tuning_notes(*version.compiled, version.arguments)) place.push_back(std::move(line));
    for (size_t i = 0; i < outputs.size(); ++i)
        r.push_back({version.program.tensors[version.program.outputs[i]].name, std::move(outputs[i])});
    return r;
}

// A picture takes one plane or planes in 0..1, or samples as they are.
Tensor for_picture(const Tensor& t) {
    if (!is_float(t.dtype())) return t;
    Shape s = t.shape();
    while (s.size() > 3 && s.front() == 1) s.erase(s.begin());
    const bool planes = s.size() == 3;
    const int64_t channels = planes ? s[0] : 1, h = s[s.size() - 2], w = s[s.size() - 1];
    Tensor r(DType::U8, planes ? Shape{h, w, channels} : Shape{h, w});
    for (int64_t ch = 0; ch < channels; ++ch)
        for (int64_t i = 0; i < h * w; ++i) r.set(i * channels + ch, std::nearbyint(255 * std::clamp(t.get(ch * h * w + i), 0.0, 1.0)));
    return r;
}

Status write(const Flags& f, const std::vector<io::NamedTensor>& tensors) {
    for (const std::string& item : f.output) {
        const std::string e = item.size() > 4 ? item.substr(item.size() - 4) : "";
        std::vector<io::NamedTensor> converted = tensors;
        if (e == ".png" || e == ".jpg" || e == "jpeg")
            for (io::NamedTensor& t : converted)
                if (t.tensor.rank() >= 2) t.tensor = for_picture(t.tensor);
        OPW_CHECK(write_outputs({item}, converted));
    }
    return ok_status();
}

void run(const Flags& f, Context& c) {
    std::vector<std::string> notes, place;
    auto r = results(f, notes, place);
    if (!r.ok()) return fail(c, r.error(), f.json);
    if (Status s = write(f, *r); !s.ok()) return fail(c, s.error(), f.json);
    if (f.json) {
        nlohmann::json j{{"target", f.target}, {"notes", notes}, {"placement", place}, {"outputs", nlohmann::json::array()}};
        for (const io::NamedTensor& t : *r) j["outputs"].push_back(describe_json(t.name, t.tensor));
        return print_json(j);
    }
    for (const std::string& n : notes) print(wrapped("input  " + n));
    for (const std::string& p : place) print(wrapped(p + "\n"));
    for (const io::NamedTensor& t : *r) print(wrapped("output " + describe(t.name, t.tensor)));
}
}  // namespace

void add_run(CLI::App& app, Context& c) {
    auto f = std::make_shared<Flags>();
    CLI::App* a = app.add_subcommand("run", "Run a model or an operator");
    a->add_option("TARGET", f->target, "a model (.onnx), a file of declarations (.op), or an operator of the library")->required();
    a->add_option("--op", f->op, "which operator of the file");
    f->on.add(*a);
    a->add_option("--output", f->output, "FILE.npz for all outputs, or NAME=FILE (.npy, .npz, .pb, .png, .jpg)");
    a->add_option("--schedule", f->schedule, "an operator's schedule, as `explain --level schedule --json` prints it");
    f->data.add(*a);
    f->execution.add(*a);
    a->add_flag("--json", f->json, "print JSON");
    a->footer("Examples:\n"
              "  opwright run model.onnx --input x=a.npy --output out.npz --threads 2\n"
              "  opwright run model.onnx --size n=3,w=224\n"
              "  opwright run examples/matmul_prelu.op --size m=64,n=32,k=128\n"
              "  opwright run sobel --input x=photo.png --output y=edges.png\n"
              "A picture feeds a float input as planes in 0..1, and floats in 0..1 are written as a picture.");
    a->callback([f, &c] { run(*f, c); });
}

}  // namespace opwright::cli
