// A target that emits source as the thing under test: what it emits is built and run.
#pragma once
#include "target/target.h"
#include "verify/check.h"

namespace opwright::verify {

// What the target refuses to emit is "refused: ..."; build() says "not run: ..." of what can't run here (bf16 under an
// interpreter that has none).
Compile source_target(const target::Target& t, target::EmitOptions o = {});

}  // namespace opwright::verify
