// What the planner's passes share. Private to fuse/.
#pragma once
#include <string>
#include <unordered_map>

#include "fuse/fuse.h"
#include "fuse/summary.h"
#include "fuse/uses.h"

namespace opwright::fuse {

using GroupId = uint32_t;

// How the output of a group is reached from one of its nodes.
struct Member {
    bool aligned = false;    // element by element, in the order of the group's output
    bool repeats = false;    // what it computes is wanted more than once
    int sites = 1;           // distinct places where its result is wanted
    double recompute = 1;    // evaluations over elements
};

struct Group {
    std::vector<graph::NodeId> nodes;             // ascending
    std::unordered_map<graph::NodeId, Member> members;
    graph::NodeId last = 0;                       // whose place it takes in the order of nodes
    bool reduces = false, contracts = false;
    int operations = 0;
    bool gone = false;                            // joined another

    std::optional<math::Program> program;         // merged, once it was needed
    std::vector<graph::ValueId> inputs, outputs;  // of it
    std::optional<Estimate> alone;
};

struct State {
    State(graph::Graph graph, const Options& options);

    graph::Graph g;
    const Options& o;
    Machine machine;
    math::SymValues sizes;
    std::vector<std::string> assumed;
    Uses uses;
    std::vector<std::optional<math::Program>> view;   // by node: of views that can be written as a program
    std::vector<Summary> facts;
    std::vector<ProgramWork> works;
    std::vector<Group> groups;
    std::vector<std::vector<GroupId>> homes;          // by node; several where a map is repeated
    std::vector<Decision> decisions;
    std::vector<bool> lone;                            // by node: a view that stands by itself too
    std::unordered_map<graph::NodeId, size_t> decided;  // the latest record of a producer
    double measured = 0;
    mutable std::unordered_map<std::string, ProgramWork> counted;  // by canonical text and sizes

    const math::Program& program(graph::NodeId n) const { return view[n] ? *view[n] : g.nodes[n].program; }
    bool is_view(graph::NodeId n) const { return g.nodes[n].kind == graph::NodeKind::View; }
    int operations(graph::NodeId n) const;
    std::string label(graph::NodeId n) const;
    // The groups of a value's readers, each once, ascending by `last`.
    std::vector<GroupId> reading(graph::ValueId v) const;
    // Whether n's value v is wanted outside group g: by the model or by a node of another group.
    bool leaves(graph::ValueId v, const Group& of) const;
    // The members' equations as one program, those of nested temporaries substituted; fills inputs and outputs.
    math::Program merged(const std::vector<graph::NodeId>& nodes, std::vector<graph::ValueId>& inputs,
                         const std::vector<graph::ValueId>& outputs) const;
    // The group as a kernel of its own: its program and what it takes.
    const math::Program& form(Group& g) const;
    const Estimate& time(Group& g) const;
    // How much a program computes and moves at these sizes. The layers of a model are alike: counted once for each form.
    const ProgramWork& work(const math::Program& p) const;
    // Of a group put together from its members' work, without its program.
    Work combined(const Group& g) const;
    void record(graph::NodeId producer, Decision d);
};

// Why a fusion is predicted slower: where it leaves units without work, that.
std::string predicted_slower(const Machine& m, double producer_tasks, double fused_tasks);

// The two passes.
void join_free(State& s);
void join_by_gain(State& s);

}  // namespace opwright::fuse
