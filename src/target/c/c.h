// The plainest target: C99 that computes one point after the other. It is the shortest example of a target, and the
// source to read first.
#pragma once
#include "target/target.h"

namespace opwright::target::c {

const Target& c_target();

}  // namespace opwright::target::c
