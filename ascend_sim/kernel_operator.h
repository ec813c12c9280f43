// A functional simulator of a subset of Ascend C (vector cores of __NPU_ARCH__ 2201): put this folder in front of the
// include path and compile a kernel with g++ -std=c++17. README.md says what is modelled and what is reported.
#pragma once
#include "sim/copy.h"
#include "sim/reduce.h"
#include "sim/select.h"
#include "sim/transpose.h"
