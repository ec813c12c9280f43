#include "target/triton/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "math/folded_reads.h"
#include "target/triton/check.h"
#include "target/triton/expr.h"
#include "target/triton/kernel.h"
#include "target/triton/range.h"
#include "target/triton/variant.h"

namespace opwright::target::triton {
using namespace math;

namespace {

constexpr const char* kTypes[] = {"torch.bool",     "torch.int8",    "torch.int16",  "torch.int32",  "torch.int64",
                                  "torch.uint8",    "torch.uint16",  "torch.uint32", "torch.uint64", "torch.float16",
                                  "torch.bfloat16", "torch.float32", "torch.float64"};

std::string tuple(const std::vector<std::string>& items) {
    return items.size() == 1 ? "(" + items[0] + ",)" : fmt::format("({})", fmt::join(items, ", "));
}

// What functions of several tensors check each of them with.
const char* const kExpect = R"(def _expect(what, tensor, dtype, dims):
    if tensor.dtype != dtype or tensor.dim() != dims:
        wanted = f"{dtype} with {dims} dim{'' if dims == 1 else 's'}"
        raise ValueError(f"{what} must be {wanted}, but is {tensor.dtype} with {tensor.dim()}.")


)";

class Writer {
public:
    Writer(const Program& p, const EmitOptions& o) : p_(p), options_(o), file_(p) {}

    Result<Module> run() {
        m_.function = file_.function();
        // A row that fits is held on the chip; one that does not is walked in steps.
        OPW_TRY(variants_, make_variants(p_, options_.schedule));
        for (const Variant& v : variants_) m_.facts.push_back(v.program.schedule.summary);

        PythonWriter function;
        write_function(function);
        PythonWriter check;
        write_check(p_, file_, m_.function, input_names_, m_.keywords, options_.sizes, check);
        if (p_.inputs.size() > 1) kernels_ += kExpect;
        m_.text = head() + file_.helpers() + kernels_ + file_.launch_helpers() + function.text() + check.text();
        return std::move(m_);
    }

private:
    std::string size(const Sym& s) { return python(s, file_.symbols()); }

    std::string head() {
        std::string doc = "\"\"\"" + p_.name;
        if (!p_.doc.empty()) doc += ": " + p_.doc;
        doc += "\n\n";
        std::string equations = p_.print();
        size_t begin = 0;
        while (begin < equations.size()) {
            const size_t end = std::min(equations.find('\n', begin), equations.size());
            std::string line = equations.substr(begin, end - begin);
            std::string indent = "    ";
            while (line.size() + indent.size() > 100) {  // goes on, indented, behind a blank
                const size_t room = 100 - indent.size(), blank = line.rfind(' ', room);
                if (blank == std::string::npos || blank == 0) break;
                doc += indent + line.substr(0, blank) + "\n";
                line = line.substr(blank + 1);
                indent = "        ";
            }
            if (!line.empty()) doc += indent + line + "\n";
            begin = end + 1;
        }
        for (size_t at = doc.find('\\'); at != std::string::npos; at = doc.find('\\', at + 2)) doc.insert(at, "\\");
        doc +=
            "\nWritten by Opwright, for Triton 3.4 to 3.9; needs only torch and triton. Run as a program it checks "
            "itself\n"
            "against NumPy: on the GPU, or on the CPU with TRITON_INTERPRET=1.\n\"\"\"\n\n";
        if (file_.numpy_helpers().find("math.") != std::string::npos) doc += "import math\n\n";
        return doc + "import numpy as np\nimport torch\nimport triton\nimport triton.language as tl\n\n\n";
    }

    // ---- the function

    void write_function(PythonWriter& w) {
        for (TensorId t : p_.inputs) input_names_.push_back(file_.tensor(t));
        PythonWriter body;
        body.indent();
        write_arguments(body);
        // Kernels first: they decide which sizes have names.
        PythonWriter launches;
        launches.indent();
        write_variants(launches);
        write_sizes(body);
        write_requirements(body);
        write_outputs(body);
        if (index_) write_index_type(body);
        if (!file_.reports().empty()) body.line("error = torch.zeros(1, dtype=torch.int32, device=device)");
        body.append(launches.text());
        if (!file_.reports().empty()) {
            body.line("if check_indices and error.item():");
            body.indent();
            if (file_.reports().size() == 1) {
                body.line(fmt::format("raise IndexError({})", quoted(file_.reports()[0])));
            } else {
                std::string messages;
                for (const std::string& m : file_.reports()) messages += (messages.empty() ? "" : ", ") + quoted(m);
                body.line(fmt::format("messages = [{}]", messages));
                body.line("raise IndexError(messages[error.item() - 1])");
            }
            body.outdent();
        }
        std::vector<std::string> outputs;
        for (TensorId t : p_.outputs) outputs.push_back(file_.tensor(t));
        body.line(fmt::format("return {}", fmt::join(outputs, ", ")));

        std::vector<std::string> parameters = input_names_;
        if (!m_.keywords.empty() || !file_.reports().empty() || p_.inputs.empty()) parameters.push_back("*");
        for (const auto& [name, symbol] : m_.keywords) parameters.push_back(name);
        if (p_.inputs.empty()) parameters.push_back("device=None");
        if (!file_.reports().empty()) parameters.push_back("check_indices=True");
        w.line(fmt::format("def {}({}):", m_.function, fmt::join(parameters, ", ")));
        w.indent();
        std::string doc = p_.doc.empty() ? p_.name : p_.doc;
        for (const char c : {'\\', '"'}) std::replace(doc.begin(), doc.end(), c, c == '"' ? '\'' : '/');
        std::vector<std::string> lines;
        while (doc.size() > 90) {
            const size_t blank = doc.rfind(' ', 90);
            if (blank == std::string::npos || blank == 0) break;
            lines.push_back(doc.substr(0, blank));
            doc = doc.substr(blank + 1);
        }
        lines.push_back(doc);
        w.docstring(lines);
        w.outdent();
        w.append(body.text());
    }

    void write_arguments(PythonWriter& w) {
        if (p_.inputs.empty()) {
            w.line("if device is None:");
            w.indent();
            w.line("device = torch.device(\"cuda\" if torch.cuda.is_available() else \"cpu\")");
            w.outdent();
            for (const std::string& s : p_.symbols()) add_keyword(s);
            return;
        }
        std::set<std::string> known;
        std::vector<std::string> later;
        for (TensorId t : p_.inputs) {
            const TensorInfo& info = p_.tensors[t];
            const std::string& n = file_.tensor(t);
            const auto rank = info.shape.size();
            const char* const type = kTypes[static_cast<int>(info.dtype)];
            if (p_.inputs.size() > 1) {
                w.line(fmt::format("_expect({}, {}, {}, {})", quoted(p_.name + ": " + n), n, type, rank));
                continue;
            }
            w.line(fmt::format("if {0}.dtype != {1} or {0}.dim() != {2}:", n, type, rank));
            w.indent();
            w.line(fmt::format(
                "raise ValueError(f\"{}: {} must be {} with {} dim{}, but is {{{}.dtype}} with {{{}.dim()}}.\")",
                p_.name, n, type, rank, rank == 1 ? "" : "s", n, n));
            w.outdent();
        }
        const std::string first = file_.tensor(p_.inputs[0]);
        w.line("device = " + first + ".device");
        // Extents that a dim gives outright, then those that follow from a dim such as 2 * c.
        for (TensorId t : p_.inputs) {
            const auto& shape = p_.tensors[t].shape;
            std::vector<std::string> names;
            std::set<std::string> fresh;
            for (const Sym& s : shape)
                if (s.kind() == SymKind::Symbol && !known.count(s.symbol_name()) &&
                    fresh.insert(s.symbol_name()).second)
                    names.push_back(file_.size(s));
                else
                    names.push_back("_");
            if (fresh.empty()) continue;
            w.line(fmt::format("{} = {}.shape",
                               names.size() == 1 ? tuple(names) : fmt::format("{}", fmt::join(names, ", ")),
                               file_.tensor(t)));
            known.insert(fresh.begin(), fresh.end());
        }
        for (TensorId t : p_.inputs)
            for (size_t d = 0; d < p_.tensors[t].shape.size(); ++d) {
                std::vector<std::string> missing;
                collect_symbols(p_.tensors[t].shape[d], missing);
                std::erase_if(missing, [&](const std::string& s) { return known.count(s) > 0; });
                if (missing.size() != 1) continue;
                const auto solved = solve(p_.tensors[t].shape[d], missing[0]);
                if (!solved) continue;
                w.line(fmt::format("{} = ({}.shape[{}] - ({})) // ({})", file_.symbols().at(missing[0]),
                                   file_.tensor(t), d, size(solved->second), size(solved->first)));
                known.insert(missing[0]);
            }
        for (const std::string& s : p_.symbols())
            if (!known.count(s)) add_keyword(s);
        std::set<std::string> bound;
        for (TensorId t : p_.inputs) {
            const auto& shape = p_.tensors[t].shape;
            std::vector<std::string> want;
            bool given = true;  // every dim binds its symbol here
            for (const Sym& s : shape) {
                want.push_back(size(s));
                given = given && s.kind() == SymKind::Symbol && bound.insert(s.symbol_name()).second;
            }
            if (given) continue;
            const std::string& n = file_.tensor(t);
            w.line(fmt::format("if {}.shape != {}:", n, tuple(want)));
            w.indent();
            w.line(fmt::format("raise ValueError(f\"{}: {} must have the shape {{{}}}, but has {{tuple({}.shape)}}.\")",
                               p_.name, n, tuple(want), n));
            w.outdent();
        }
    }
    void add_keyword(const std::string& symbol) { m_.keywords.emplace_back(file_.symbols().at(symbol), symbol); }
    // s as slope * symbol + rest.
    static std::optional<std::pair<Sym, Sym>> solve(const Sym& s, const std::string& symbol) {
        const Sym rest = substitute(s, {{symbol, Sym(0)}}), slope = substitute(s, {{symbol, Sym(1)}}) - rest;
        if (!(substitute(s, {{symbol, Sym(5)}}) == rest + slope * 5) || slope.lower() < 1) return std::nullopt;
        return std::pair{slope, rest};
    }

    void write_sizes(PythonWriter& w) {
        for (const File::Size& s : file_.sizes())
            if (s.value.kind() != SymKind::Symbol) w.line(fmt::format("{} = {}", s.name, s.text));
    }

    // The condition under which a condition does not hold, as a person writes it.
    std::string zero(const Sym& s) {
        const auto& o = s.operands();
        switch (s.kind()) {
            case SymKind::Less: return fmt::format("{} >= {}", known_size(o[0]), known_size(o[1]));
            case SymKind::Equal: return fmt::format("{} != {}", known_size(o[0]), known_size(o[1]));
            case SymKind::Add: {
                const Sym opposite = Sym(1) - s;  // not (not c)
                if (opposite.kind() == SymKind::Less)
                    return fmt::format("{} < {}", known_size(opposite.operands()[0]),
                                       known_size(opposite.operands()[1]));
                if (opposite.kind() == SymKind::Equal)
                    return fmt::format("{} == {}", known_size(opposite.operands()[0]),
                                       known_size(opposite.operands()[1]));
                break;
            }
            case SymKind::Mul: {
                std::string r;
                for (const Sym& f : o) r += (r.empty() ? "" : " or ") + zero(f);
                return r;
            }
            default: break;
        }
        return fmt::format("({}) == 0", size(s));
    }

    void write_requirements(PythonWriter& w) {
        const auto refuse = [&](const std::string& unless, const std::string& message) {
            w.line(fmt::format("if {}:", unless));
            w.indent();
            w.line(fmt::format("raise ValueError({})", quoted(p_.name + ": " + message)));
            w.outdent();
        };
        std::set<std::string> seen;  // conditions that are checked already
        for (const Requirement& r : p_.requirements) {
            if (r.value.is_const()) continue;
            const std::string fault = zero(r.value);
            if (seen.insert(fault).second) refuse(fault, r.message);
        }
        for (TensorId t : p_.outputs)
            for (const Sym& s : p_.tensors[t].shape)
                if (s.lower() < 0 && seen.insert(known_size(s) + " < 0").second && seen.insert(size(s) + " < 0").second)
                    refuse(known_size(s) + " < 0",
                           fmt::format("{} would have a dim of less than 0", p_.tensors[t].name));
        for (const FoldedRead& r : folded_reads(p_))
            refuse(fmt::format("{} == 0 and {} > 0", size(r.elements), size(r.points)),
                   empty_read_message(p_, r.tensor));
        for (const Equation& q : p_.equations) {
            std::vector<VarId> domain = q.vars;
            for (ExprId a : q.at) check_accesses(a, domain, refuse);
            check_accesses(q.rhs, domain, refuse);
            if (q.update != Update::Set && q.outside == Outside::Error) check_access(q.lhs, q.at, domain, refuse);
        }
    }
    template <class F>
    void check_accesses(ExprId e, std::vector<VarId> domain, const F& refuse) {
        const Expr& x = p_.expr(e);
        if (!visited_.insert(e).second) return;
        if (x.kind == ExprKind::Reduce) domain.insert(domain.end(), x.vars.begin(), x.vars.end());
        if (x.kind == ExprKind::Load && x.outside == Outside::Error) check_access(x.ref, x.args, domain, refuse);
        for (ExprId a : x.args) check_accesses(a, domain, refuse);
    }
    template <class F>
    void check_access(TensorId t, const std::vector<ExprId>& at, const std::vector<VarId>& domain, const F& refuse) {
        const TensorInfo& info = p_.tensors[t];
        for (size_t d = 0; d < info.shape.size(); ++d) {
            const auto r = index_range(p_, at[d]);
            if (!r) continue;
            const bool above = r->low.lower() >= 0, below = (info.shape[d] - 1 - r->high).lower() >= 0;
            if (above && below) continue;
            std::string condition;
            for (VarId v : domain)
                if (p_.vars[v].extent.lower() < 1)
                    condition += (condition.empty() ? "min(" : ", ") + size(p_.vars[v].extent);
            if (!condition.empty())
                condition =
                    (condition.find(',') == std::string::npos ? condition.substr(4) : condition + ")") + " > 0 and ";
            std::string leaves;
            if (!above) leaves = size(r->low) + " < 0";
            if (!below)
                leaves += (leaves.empty() ? "" : " or ") + fmt::format("{} >= {}", size(r->high), size(info.shape[d]));
            const std::string text = condition + (!above && !below && !condition.empty() ? "(" + leaves + ")" : leaves);
            if (reported_.insert(text).second)
                refuse(text, fmt::format("{} leaves dim {} of {}", p_.print(at[d]), d, info.name));
        }
    }

    void write_outputs(PythonWriter& w) {
        for (TensorId t : p_.inputs) w.line(fmt::format("{0} = {0}.contiguous()", file_.tensor(t)));
        for (TensorId t : p_.outputs) allocate(w, t, p_.tensors[t]);
    }
    void allocate(PythonWriter& w, TensorId t, const TensorInfo& info) {
        std::vector<std::string> dims;
        for (const Sym& s : info.shape) dims.push_back(known_size(s));
        w.line(fmt::format("{} = torch.empty({}, dtype={}, device=device)", file_.tensor(t), tuple(dims),
                           kTypes[static_cast<int>(info.dtype)]));
    }
    // An extent by the name it has, if it has one.
    std::string known_size(const Sym& s) {
        for (const File::Size& known : file_.sizes())
            if (known.value == s) return known.name;
        return size(s);
    }

    void write_index_type(PythonWriter& w) {
        std::vector<std::string> counts;
        Sym constant = 0;
        const auto add = [&](const Sym& s) {
            if (s.is_const()) {
                if (*s.constant() > *constant.constant()) constant = s;
                return;
            }
            const std::string text = known_size(s);
            if (std::find(counts.begin(), counts.end(), text) == counts.end()) counts.push_back(text);
        };
        for (TensorId t : p_.inputs) counts.push_back(file_.tensor(t) + ".numel()");
        for (TensorId t : p_.outputs) counts.push_back(file_.tensor(t) + ".numel()");
        // What the tensors' own counts tell already needs no second look.
        std::vector<TensorId> arguments = p_.inputs;
        arguments.insert(arguments.end(), p_.outputs.begin(), p_.outputs.end());
        const auto told = [&](const Sym& s) {
            const auto counts_it = [&](TensorId t) { return product(p_.tensors[t].shape) == s; };
            const auto covers_it = [&](TensorId t) {  // a program without results does nothing
                const auto& shape = p_.tensors[t].shape;
                return std::any_of(shape.begin(), shape.end(), [&](const Sym& d) { return (d - s).lower() >= 0; });
            };
            return std::any_of(arguments.begin(), arguments.end(), counts_it) ||
                   (workspace_.empty() && std::any_of(p_.outputs.begin(), p_.outputs.end(), covers_it));
        };
        for (const Sym& s : file_.reaches())
            if (!told(s)) add(s);
        for (const Sym& s : workspace_)
            if (!told(s)) add(s);
        if (!constant.is(0)) counts.push_back(size(constant));
        w.comment("Offsets are int32 where they fit, which takes fewer registers and instructions.");
        if (counts.size() > 1) {
            w.line(fmt::format("elements = max({})", fmt::join(counts, ", ")));
            counts = {"elements"};
        }
        w.line(fmt::format("INDEX = tl.int64 if {} >= 2**31 else tl.int32", counts[0]));
    }

    // ---- launches

    void write_variants(PythonWriter& w) {
        if (variants_.size() == 1) return write_variant(w, variants_[0], "");
        for (size_t i = 0; i < variants_.size(); ++i) {
            const Variant& v = variants_[i];
            const bool last = i + 1 == variants_.size();
            const std::string suffix = v.form == RowForm::InParts  ? "_parts"
                                       : v.form == RowForm::Shared ? "_shared"
                                       : last                      ? "_steps"
                                                                   : "_rows";
            w.line(last ? "else:" : fmt::format("{} {}:", i ? "elif" : "if", fits(v, suffix)));
            w.indent();
            w.comment(about(v, suffix == "_steps"));
            write_variant(w, v, suffix);
            w.outdent();
        }
    }
    static std::string about(const Variant& v, bool walks) {
        if (v.form == RowForm::Shared)
            return "Programs that run at the same time share a row, which is read once: each holds a part of it.";
        if (v.form == RowForm::InParts)
            return "A row fits on the chip in 16 bits: it is read once, and each walk along it converts it.";
        if (!walks) return "A row fits on the chip: it is read once.";
        const auto& plans = v.program.schedule.nests;
        const bool held = std::any_of(plans.begin(), plans.end(), [](const schedule::NestPlan& n) {
            return std::any_of(n.blocks.begin(), n.blocks.end(),
                               [](const auto& b) { return b.tile == schedule::kWhole; });
        });
        return held ? "Rows are walked in steps, as often as folds need them and once for the result; their beginning "
                      "stays on the chip."
                    : "Rows are walked in steps, as often as folds need them and once for the result.";
    }
    // The condition, in Python, under which the rows of a variant fit.
    std::string fits(const Variant& v, const std::string& suffix) {
        std::vector<std::string> conditions;
        for (const auto& row : v.rows) {
            if (row.empty() || (v.form == RowForm::Shared && row[0].is_const())) continue;
            std::string c;
            for (const Sym& s : row)
                c += (c.empty() ? "" : " * ") +
                     (row.size() == 1 ? file_.size(s) : fmt::format("triton.next_power_of_2({})", file_.size(s)));
            c += fmt::format(" <= {}", v.row);
            if (v.above) c = fmt::format("{} < {}", v.above, c);
            if (std::find(conditions.begin(), conditions.end(), c) == conditions.end()) conditions.push_back(c);
        }
        if (v.form == RowForm::Shared)
            conditions.push_back(fmt::format("{} >= {}", resident(kernel_name(v, 0, suffix)), v.row / kShare));
        return fmt::format("{}", fmt::join(conditions, " and "));
    }

    void write_variant(PythonWriter& w, const Variant& v, const std::string& suffix) {
        const tile::Program& t = v.program;
        const Program& p = t.kernel.program;
        file_.enter(p);
        for (TensorId c : constants(t)) {
            const Tensor& data = p.tensors[c].data;
            std::string values;
            for (int64_t i = 0; i < data.size(); ++i) values += (i ? ", " : "") + number(data, i);
            w.line(fmt::format("{} = torch.tensor([{}], dtype={}, device=device)", file_.tensor(c), values,
                               kTypes[static_cast<int>(data.dtype())]));
        }
        for (TensorId temp : t.kernel.workspace) {
            allocate(w, temp, p.tensors[temp]);
            workspace_.push_back(product(p.tensors[temp].shape));
        }
        for (size_t i = 0; i < t.nests.size(); ++i) {
            const KernelText k = print_kernel(t, i, file_, kernel_name(v, i, suffix), v.form);
            kernels_ += k.text + "\n\n";
            launch(w, k);
        }
    }
    // The same at each call.
    const std::string& kernel_name(const Variant& v, size_t nest, const std::string& suffix) {
        std::string& name = kernel_names_[{&v, nest}];
        if (!name.empty()) return name;
        const tile::Program& t = v.program;
        const TensorId lhs = t.kernel.program.equations[t.kernel.nests[nest].equations.back()].lhs;
        const std::string result = t.nests.size() == 1 ? "" : t.kernel.program.tensors[lhs].name + "_";
        return name = file_.names.take(fmt::format("{}{}_{}kernel", m_.function, suffix, result));
    }
    // How many programs that share rows run at the same time. A thread has 128 registers, a multiprocessor 65,536.
    std::string resident(const std::string& kernel) {
        return fmt::format("{}({}, device, {})", file_.launch_helper("_resident"), kernel,
                           65536 / (128 * kShare / kShareOfThread));
    }
    static std::vector<TensorId> constants(const tile::Program& t) {
        std::vector<TensorId> r;
        const Program& p = t.kernel.program;
        for (const Equation& q : p.equations) {
            std::vector<ExprId> all = q.at;
            all.push_back(q.rhs);
            for (ExprId e : all)
                for (TensorId x : p.reads(e))
                    if (p.tensors[x].role == Role::Constant && std::find(r.begin(), r.end(), x) == r.end())
                        r.push_back(x);
        }
        return r;
    }
    static std::string number(const Tensor& t, int64_t i) {
        if (t.dtype() == DType::Bool) return t.get_int(i) ? "True" : "False";
        if (t.dtype() == DType::U64) return std::to_string(static_cast<uint64_t>(t.get_int(i)));
        if (!is_float(t.dtype())) return std::to_string(t.get_int(i));
        const double v = t.get(i);
        if (v != v) return "float(\"nan\")";
        if (v - v != 0) return v < 0 ? "float(\"-inf\")" : "float(\"inf\")";
        return fmt::format("{}", v);
    }

    void launch(PythonWriter& w, KernelText k) {
        index_ = index_ || k.index;
        if (!k.choice.empty()) {
            // By measurement on an H200, which has 132 processors.
            w.comment(
                "The largest blocks of which there are enough for the processors of a large GPU; a deeper pipeline "
                "where "
                "each has but one.");
            w.line("for block_m, block_n, block_k in ((128, 128, 64), (64, 64, 128), (64, 32, 128)):");
            w.indent();
            w.line(fmt::format("if triton.cdiv({}, block_m) * triton.cdiv({}, block_n){} >= 96:", k.choice[0],
                               k.choice[1], k.choice[2].empty() ? "" : " * " + k.choice[2]));
            w.indent();
            w.line("break");
            w.outdent();
            w.outdent();
        }
        std::map<std::string, std::string> numbers;
        for (const auto& [name, host] : k.blocks) {
            if (!is_number(host)) w.line(fmt::format("{} = {}", name, with_numbers(host, numbers)));
            numbers[name] = host;
        }
        if (k.folds) {
            w.line(fmt::format("PARTS = triton.cdiv({}, {})", k.row, kShare));
            w.line(fmt::format("grid = (min({}, {} // PARTS) * PARTS,)", k.rows, resident(k.name)));
            w.line(fmt::format("words = torch.zeros({} * {}PARTS, dtype=torch.int64, device=device)", k.rows,
                               k.folds == 1 ? "" : fmt::format("{} * ", k.folds)));
        } else {
            w.line(fmt::format("grid = ({},)", with_numbers(k.grid, numbers)));
        }
        std::vector<std::string> arguments;
        for (TensorId t : k.tensors) arguments.push_back(file_.tensor(t));
        if (k.reports) arguments.push_back("error");
        if (k.folds) arguments.push_back("words");
        for (const std::string& n : k.sizes) arguments.push_back(n);
        if (k.index) arguments.push_back("INDEX=INDEX");
        if (k.opaque) arguments.push_back(fmt::format("OPAQUE=_on_nvidia({})", k.name));
        if (k.folds) arguments.push_back("PARTS=PARTS");
        for (const auto& [name, host] : k.blocks) {
            arguments.push_back(fmt::format("{}={}", name, is_number(host) ? host : name));
        }
        if (!k.warps.empty()) arguments.push_back("num_warps=" + with_numbers(k.warps, numbers));
        if (!k.stages.empty()) arguments.push_back("num_stages=" + k.stages);
        std::string condition = with_numbers(k.registers, numbers);
        if (!condition.empty() && condition.find_first_not_of("0123456789 *<=>") == std::string::npos) {
            if (!holds(condition)) k.registers.clear();
            condition.clear();
        }
        if (!k.registers.empty()) {
            w.comment(
                "With 64 registers a thread, two programs share a processor: one computes while the other waits.");
            w.line(fmt::format("options = {{\"maxnreg\": 64}} if {}torch.version.cuda else {{}}",
                               condition.empty() ? "" : condition + " and "));
            arguments.push_back("**options");
        }
        if (k.folds) arguments.insert(arguments.end(), {"maxnreg=128", "launch_cooperative_grid=True"});
        if (k.awaits) arguments.push_back(fmt::format("**_early({}, device)", k.name));
        w.line(fmt::format("{}[grid]({})", k.name, fmt::join(arguments, ", ")));
    }
    // Whether "2 * 4096 > 8192", or the same with <=, holds.
    static bool holds(const std::string& text) {
        int64_t product = 1;
        const size_t end = text.find_first_of("<>");
        for (size_t at = 0; at < end; at = text.find_first_of("*<>", at) + 1) product *= std::stoll(text.substr(at));
        const int64_t bound = std::stoll(text.substr(text.find_first_of("0123456789", end)));
        return text[end] == '<' ? product <= bound : product > bound;
    }
    static bool is_number(const std::string& s) { return s.find_first_not_of("0123456789") == std::string::npos; }
    // Blocks that are numbers are no variables of the function.
    static std::string with_numbers(std::string text, const std::map<std::string, std::string>& blocks) {
        for (const auto& [name, host] : blocks)
            if (is_number(host))
                for (size_t i = text.find(name); i != std::string::npos; i = text.find(name, i + host.size()))
                    text.replace(i, name.size(), host);
        return text;
    }

    const Program& p_;
    const EmitOptions& options_;
    File file_;
    Module m_;
    std::vector<Variant> variants_;
    std::string kernels_;
    std::map<std::pair<const Variant*, size_t>, std::string> kernel_names_;  // by nest
    std::vector<std::string> input_names_;
    std::vector<Sym> workspace_;
    std::set<ExprId> visited_;
    std::set<std::string> reported_;
    bool index_ = false;
};
}  // namespace

Result<Module> write_module(const Program& p, const EmitOptions& o) {
    try {
        return Writer(p, o).run();
    } catch (const Refusal& r) {
        return Diagnostic(fmt::format("Triton: {}.", r.what()), {}, "Use another target for this operator.");
    }
}

Result<std::string> write_level(const Program& p, const std::string& level, const EmitOptions& o) {
    OPW_TRY(const std::vector<Variant> all, make_variants(p, o.schedule));
    const Variant& v = all[0];
    if (level == "schedule-json") return schedule::to_json(v.program.schedule, v.program.kernel);
    if (level == "schedule") return v.program.schedule.summary + "\n";
    return tile::print(v.program);
}

}  // namespace opwright::target::triton
