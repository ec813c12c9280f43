#include "verify/source_target.h"

#include "math/inline.h"
#include "math/unit_dims.h"

namespace opwright::verify {

Compile source_target(const target::Target& t, target::EmitOptions o) {
    return [&t, o](const math::Program& p) -> Result<Compiled> {
        auto program = std::make_shared<math::Program>(math::inline_temporaries(math::drop_unit_variables(p)).program);
        OPW_TRY(std::shared_ptr<target::Runnable> kernel, t.build(*program, o));
        return Compiled(
            [program, kernel](const math::SymValues& sizes, const std::vector<Tensor>& inputs,
                              std::vector<Tensor>& outputs) { return kernel->run(sizes, inputs, outputs); });
    };
}

}  // namespace opwright::verify
