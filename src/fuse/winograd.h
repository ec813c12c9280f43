// Winograd's form of 3x3 convolutions: fewer multiply-adds, another rounding. Only where a person asks for it.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "fuse/time_model.h"
#include "graph/graph.h"

namespace opwright::fuse {

struct WinogradOptions {
    bool use = false;
    // By operator of the model: tile of 2 x 2 or 4 x 4 results. Where given, exactly these take the form, gain or not.
    std::map<std::string, int> at;
};

// What became of one convolution.
struct WinogradChoice {
    std::string node;                 // the model's operator
    bool taken = false;
    int tile = 0;                     // of tile x tile results; 0: none fits
    double direct = 0, winograd = 0;  // predicted seconds of its kernel, and of the three in its place
    std::string reason;
};

struct Winograd {
    graph::Graph graph;
    std::vector<WinogradChoice> choices;
};

// Replaces kernels that hold one convolution of 3x3 windows with constant f32 weights, stride and dilation 1 and one group
// by those that ops/winograd.op declares: the picture's tiles transformed, a product, and the results transformed back in
// the kernel of what follows the convolution. The weights' transform depends on constants alone and runs when the graph is
// compiled. Taken where `machine` is predicted to gain a tenth at these `sizes`; every convolution has a record.
Winograd use_winograd(graph::Graph g, const WinogradOptions& o, const Machine& machine, const math::SymValues& sizes);

}  // namespace opwright::fuse
