#include "target/triton/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "target/triton/check_inputs.h"
#include "target/triton/condition.h"
#include "target/triton/expr.h"
#include "target/triton/reference.h"

namespace opwright::target::triton {
using namespace math;

namespace {
std::string joined(const std::vector<std::string>& v) { return fmt::format("{}", fmt::join(v, ", ")); }
std::string tuple(const std::vector<std::string>& v) { return "(" + joined(v) + (v.size() == 1 ? ",)" : ")"); }
}  // namespace

void write_check(const Program& p, File& file, const std::string& function, const std::vector<std::string>& inputs,
                 const std::vector<std::pair<std::string, std::string>>& keywords, const SymValues& asked,
                 PythonWriter& out) {
    const std::vector<std::string> symbols = p.symbols();
    const auto limits = position_limits(p);
    const auto sizes = check_sizes(p, asked, limits);
    const auto size = [&](const Sym& s) { return python(s, file.symbols()); };

    PythonWriter body;
    body.indent();
    for (TensorId c = 0; c < p.tensors.size(); ++c)
        if (p.tensors[c].role == Role::Constant) {
            const Tensor& t = p.tensors[c].data;
            std::vector<std::string> values, shape;
            for (int64_t i = 0; i < t.size(); ++i) {
                const double v = t.get(i);
                values.push_back(std::isnan(v)         ? "np.nan"
                                 : std::isinf(v)       ? (v < 0 ? "-np.inf" : "np.inf")
                                 : is_float(t.dtype()) ? fmt::format("{}", v)
                                                       : std::to_string(t.get_int(i)));
            }
            for (const Sym& s : p.tensors[c].shape) shape.push_back(size(s));
            body.line(fmt::format("{} = np.array([{}], {}).reshape({})", file.tensor(c), joined(values),
                                  numpy_type(t.dtype()), tuple(shape)));
        }
    write_equations(p, file, body);
    std::vector<std::string> outputs;
    for (TensorId t : p.outputs) outputs.push_back(file.tensor(t));
    body.line("return " + tuple(outputs));
    const bool bounded = needs_bound(p);
    if (bounded) file.numpy_helper("_Bounded"), file.numpy_helper("_assert_within");

    std::vector<std::string> parameters = inputs, names;
    for (const std::string& s : symbols) names.push_back(file.symbols().at(s));
    parameters.insert(parameters.end(), names.begin(), names.end());
    out.blank(2);
    out.append(file.numpy_helpers());
    out.line(fmt::format("def reference({}):", joined(parameters)));
    out.indent();
    out.docstring({"The declaration in NumPy, equation by equation, in float64."});
    out.outdent();
    out.append(body.text());
    out.blank(2);

    out.line("def check():");
    out.indent();
    out.docstring(
        {"Compares with the reference at sizes where kernels go wrong: 1, primes, around the edges of blocks."});
    out.line("device = \"cuda\" if torch.cuda.is_available() else \"cpu\"");
    out.line("torch.manual_seed(0)");
    if (!symbols.empty()) {
        std::vector<std::string> rows;
        for (const SymValues& v : sizes) {
            std::vector<std::string> row;
            for (const std::string& s : symbols) row.push_back(std::to_string(v.at(s)));
            rows.push_back(symbols.size() == 1 ? row[0] : tuple(row));
        }
        out.line(fmt::format("for {} in [{}]:", joined(names), joined(rows)));
        out.indent();
    }
    for (TensorId t : p.inputs) {
        const TensorInfo& info = p.tensors[t];
        std::vector<std::string> shape;
        for (const Sym& s : info.shape) shape.push_back(size(s));
        const std::string& n = file.tensor(t);
        const std::string type =
            info.dtype == DType::BF16
                ? "torch.bfloat16"
                : "torch." + (info.dtype == DType::Bool ? "bool" : storage_name(info.dtype).substr(3));
        if (is_float(info.dtype)) {
            out.line(fmt::format("{} = torch.randn({}){}", n, tuple(shape),
                                 info.dtype == DType::F32 ? "" : ".to(" + type + ")"));
        } else if (const auto l = limits.find(t); l != limits.end()) {
            std::vector<std::string> lows, ends;
            const auto add = [&](std::vector<std::string>& all, const Sym& s) {
                if (const std::string e = size(s); std::find(all.begin(), all.end(), e) == all.end()) all.push_back(e);
            };
            for (const Limits& x : l->second) add(lows, x.low), add(ends, x.end);
            const auto of = [](const char* f, const std::vector<std::string>& all) {
                return all.size() == 1 ? all[0] : fmt::format("{}({})", f, joined(all));
            };
            out.line(fmt::format("{} = torch.randint({}, {}, {}).to({})", n, of("max", lows), of("min", ends),
                                 tuple(shape), type));
        } else {
            out.line(fmt::format("{} = torch.randint({}, {}).to({})", n,
                                 info.dtype == DType::Bool   ? "0, 2"
                                 : is_signed_int(info.dtype) ? "-5, 6"
                                                             : "0, 10",
                                 tuple(shape), type));
        }
    }
    std::vector<std::string> host, device_arguments;
    for (size_t i = 0; i < inputs.size(); ++i) {
        const bool real = is_float(p.tensors[p.inputs[i]].dtype);
        const std::string array = inputs[i] + (real ? ".double().numpy()" : ".numpy()");
        host.push_back(real && bounded ? fmt::format("_Bounded({})", array) : array);
        device_arguments.push_back(inputs[i] + ".to(device)");
    }
    host.insert(host.end(), names.begin(), names.end());
    for (const auto& [n, symbol] : keywords) device_arguments.push_back(n + "=" + n);
    out.line(fmt::format("expected = reference({})", joined(host)));
    out.line(fmt::format(fmt::runtime(p.outputs.size() == 1 ? "results = ({}({}),)" : "results = {}({})"), function,
                         joined(device_arguments)));
    // Sums and functions in the type that they are computed in; then a rounding for each tensor that is stored
    // narrower.
    double tolerance = 0;
    for (const TensorInfo& t : p.tensors)
        if (is_float(t.dtype))
            tolerance = std::max(tolerance, t.role == Role::Input ? 64 * unit_roundoff(compute_type(t.dtype))
                                                                  : 4 * unit_roundoff(t.dtype));
    if (tolerance == 0) tolerance = 1e-6;
    out.line("for result, wanted in zip(results, expected):");
    out.indent();
    out.line("result = result.cpu()");
    out.line("result = (result.double() if result.is_floating_point() else result).numpy()");
    out.line(bounded
                 ? "_assert_within(result, wanted)"
                 : fmt::format("np.testing.assert_allclose(result, wanted, rtol={0:.1g}, atol={0:.1g})", tolerance));
    out.outdent();
    if (!symbols.empty()) out.outdent();
    out.line(fmt::format("print(\"{}: {} agree with the reference\")", p.name,
                         symbols.empty() ? "the results" : fmt::format("the results at {} sizes", sizes.size())));
    out.outdent();
    out.blank(2);
    out.line("if __name__ == \"__main__\":");
    out.indent();
    out.line("check()");
    out.outdent();
}

}  // namespace opwright::target::triton
