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

void add_doctor(CLI::App& app, Context& c);

}  // namespace opwright::cli
