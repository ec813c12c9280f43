#include "verify/source_target.h"

#include "math/inline.h"
#include "math/unit_dims.h"
#include "target/widths.h"

namespace opwright::verify {

Compile source_target(const target::Target& t, target::EmitOptions o) {
    return [&t, o](const math::Program& p) -> Result<Compiled> {
        auto program = std::make_shared<math::Program>(math::inline_temporaries(math::drop_unit_variables(p)).program);
        auto built = t.build(*program, o);
        if (!built.ok()) {
            Diagnostic why = built.error();
            if (why.message.rfind("not run: ", 0) != 0 && !t.emit(*program, o).ok())
                why.message = "refused: " + why.message;
            return why;
        }
        const std::shared_ptr<target::Runnable> kernel = std::move(*built);
        return Compiled([program, kernel](const math::SymValues& sizes, const std::vector<Tensor>& inputs,
                                          std::vector<Tensor>& outputs) { return kernel->run(sizes, inputs, outputs); },
                        target::widths(t, *program, o));
    };
}

}  // namespace opwright::verify
