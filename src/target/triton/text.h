// What the parts of one emitted file share: names of tensors and extents, the helper functions that kernels use, the
// places that report an index outside a tensor.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "math/program.h"
#include "target/triton/python.h"

namespace opwright::target::triton {

// An extent as a Python expression over the names of its symbols: "(H + 2 * 1 - 3) // 2 + 1".
std::string python(const math::Sym& s, const std::map<std::string, std::string>& symbols);

class File {
public:
    explicit File(const math::Program& p);

    const std::string& function() const { return function_; }
    // The extent's number, or the name under which function and kernels know it.
    std::string size(const math::Sym& s);
    // Gives the product of extents a name made of theirs.
    void product(const std::vector<math::Sym>& extents);
    // Extents that have a name, in the order in which they were met, each with the Python expression for it.
    struct Size {
        std::string name;
        math::Sym value;
        std::string text;
    };
    const std::vector<Size>& sizes() const { return sizes_; }
    const std::map<std::string, std::string>& symbols() const { return symbols_; }
    const std::string& tensor(math::TensorId t) const { return tensors_[t]; }

    // The tensors of a kernel made from the program: those it adds get names of their own.
    void enter(const math::Program& kernel);
    // Keeps the names that sizes have, or may get, from others.
    void reserve_sizes(Names& names) const;

    // Notes a function of functions.py, and those that it uses.
    const std::string& helper(const std::string& name);
    // The sources of all functions noted, in the order of functions.py.
    std::string helpers() const;

    // The same for launch_functions.py and numpy_functions.py.
    const std::string& launch_helper(const std::string& name);
    std::string launch_helpers() const;
    const std::string& numpy_helper(const std::string& name);
    std::string numpy_helpers() const;

    // A number from 1 for the message to give when an index that is data lies outside.
    int report(std::string message);
    const std::vector<std::string>& reports() const { return reports_; }

    // Something that an int32 offset might not hold: if it exceeds 2^31, offsets are int64.
    void reach(const math::Sym& s);
    const std::vector<math::Sym>& reaches() const { return reaches_; }

    Names names;  // of the module

private:
    std::string function_;  // the module's function
    std::vector<std::string> tensors_;
    size_t own_ = 0;                                          // tensors of the program itself
    std::map<std::string, std::string> symbols_;              // of the program -> in Python
    std::vector<std::pair<std::string, std::string>> hints_;  // printed extent -> name to give it
    std::vector<Size> sizes_;
    std::set<std::string> helpers_, launch_helpers_, numpy_helpers_;
    std::vector<std::string> reports_;
    std::vector<math::Sym> reaches_;
};

// The emitter's Python files, embedded: "functions.py", "worker.py".
std::string_view resource(std::string_view name);

}  // namespace opwright::target::triton
