// The commands of `opwright`: each adds itself to the parser, and sets the exit code when it runs.
#pragma once
#include <string>

namespace CLI {
class App;
}

namespace opwright::cli {

// Exit codes, documented in docs/cli.md.
enum Exit : int {
    kOk = 0,
    kFinding = 1,   // what was examined is wrong, unsupported or could not be read; the message says which
    kUsage = 2,     // the command was called in a way that it does not have
    kInternal = 3,  // a fault in Opwright
};

struct Context {
    int exit = kOk;
};

void add_check(CLI::App& app, Context& c);
void add_explain(CLI::App& app, Context& c);
void add_ascend_sim(CLI::App& app, Context& c);
void add_emit(CLI::App& app, Context& c);
void add_grad(CLI::App& app, Context& c);
void add_jvp(CLI::App& app, Context& c);
void add_compare(CLI::App& app, Context& c);
void add_run(CLI::App& app, Context& c);
void add_verify(CLI::App& app, Context& c);
void add_profile(CLI::App& app, Context& c);
void add_tune(CLI::App& app, Context& c);
void add_ops(CLI::App& app, Context& c);
void add_doctor(CLI::App& app, Context& c);
void add_onnx_test(CLI::App& app, Context& c);

}  // namespace opwright::cli
