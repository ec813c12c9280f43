// A target that emits source as the thing under test: what it emits is built and run.
#pragma once
#include "target/target.h"
#include "verify/check.h"

namespace opwright::verify {

Compile source_target(const target::Target& t, target::EmitOptions o = {});

}  // namespace opwright::verify
