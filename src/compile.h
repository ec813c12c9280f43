// The whole way from a graph of operators to something that runs, and from one operator to a graph.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "fuse/fuse.h"
#include "fuse/layout.h"
#include "fuse/winograd.h"
#include "runtime/executable.h"

namespace opwright {

struct CompileOptions {
    runtime::ExecutableOptions execution;
    bool fuse = true;
    bool layouts = true;       // values between kernels may have their channels last (fuse/layout.h); on the CPU alone
    fuse::WinogradOptions winograd;  // 3x3 convolutions in Winograd's form, which rounds otherwise; on the CPU alone
    bool tuned = true;         // schedules that won when they were tuned (tune/source.h) in place of the default ones
    bool check = false;        // verify every level as it is made; a violation is a bug in Opwright and aborts
    fuse::Options fusion;      // what is not given is filled in: the machine, and what the target has kernels for
};

struct Compiled {
    std::shared_ptr<const runtime::Executable> executable;
    std::vector<fuse::Decision> decisions;
    std::vector<fuse::LayoutRegion> layouts;
    std::vector<fuse::WinogradChoice> winograd;
    std::string tuning_problem;  // why the tuning database could not be read, and what to do; empty: nothing is wrong
    fuse::Fused planned;       // machine and sizes that they were weighed for; its graph and decisions have moved on
};
Result<Compiled> compile(graph::Graph g, const CompileOptions& o, runtime::ThreadPool& pool);

// One operator as a graph of one node, with the program's inputs and outputs.
graph::Graph graph_of(math::Program p);

}  // namespace opwright
