// Tensors from files and into files.
#include <fmt/format.h>

#include <algorithm>

#include "cli/common.h"
#include "io/file.h"
#include "io/tensors.h"

namespace opwright::cli {
namespace {

// "NAME=PATH" split; an empty name where there is none.
std::pair<std::string, std::string> split(const std::string& item) {
    const size_t eq = item.find('=');
    return eq == std::string::npos ? std::pair(std::string(), item) : std::pair(item.substr(0, eq), item.substr(eq + 1));
}
}  // namespace

Result<std::map<std::string, Tensor>> read_inputs(const std::vector<std::string>& items, const std::vector<std::string>& names) {
    std::map<std::string, Tensor> r;
    const auto add = [&](const std::string& n, Tensor t) -> Status {
        if (std::find(names.begin(), names.end(), n) == names.end()) {
            Diagnostic d(fmt::format("There is no input named '{}'.", n));
            const std::string near = did_you_mean(n, names);
            d.with_next(near.empty() ? fmt::format("The inputs are: {}.", fmt::join(names, ", ")) : fmt::format("Did you mean '{}'?", near));
            return d;
        }
        if (!r.emplace(n, std::move(t)).second) return Diagnostic(fmt::format("Input '{}' is given twice.", n));
        return ok_status();
    };
    for (const std::string& item : items) {
        const auto [name, path] = split(item);
        OPW_TRY(auto members, io::read_tensors(path));
        if (!name.empty()) {
            if (members.size() != 1)
                return Diagnostic(fmt::format("'{}' holds {} tensors, and one is wanted for '{}'.", path, members.size(), name))
                    .with_next("Give the file without a name: its members feed the inputs of their names.");
            OPW_CHECK(add(name, std::move(members[0].tensor)));
        } else if (io::extension(path) == ".npz") {
            // An archive of one unnamed array ("arr_0", as numpy names it) feeds an only input of any name.
            if (members.size() == 1 && names.size() == 1 && members[0].name == "arr_0") members[0].name = names[0];
            for (auto& m : members) OPW_CHECK(add(m.name, std::move(m.tensor)));
        } else if (names.size() == 1) {
            OPW_CHECK(add(names[0], std::move(members[0].tensor)));
        } else {
            return Diagnostic(fmt::format("'{}' does not say which input it is for.", path))
                .with_next(fmt::format("Write NAME={} with one of the inputs: {}.", path, fmt::join(names, ", ")));
        }
    }
    return r;
}

Status write_outputs(const std::vector<std::string>& items, const std::vector<io::NamedTensor>& tensors) {
    for (const std::string& item : items) {
        const auto [name, path] = split(item);
        const std::string e = io::extension(path);
        if (name.empty() && e == ".npz") {
            OPW_CHECK(io::write_tensors(path, tensors));
            continue;
        }
        const io::NamedTensor* t = tensors.size() == 1 && name.empty() ? &tensors[0] : nullptr;
        for (const io::NamedTensor& x : tensors)
            if (x.name == name) t = &x;
        if (!t) {
            std::vector<std::string> names;
            for (const io::NamedTensor& x : tensors) names.push_back(x.name);
            return Diagnostic(name.empty() ? fmt::format("'{}' does not say which output it takes.", path) : fmt::format("There is no output named '{}'.", name))
                .with_next(fmt::format("Write NAME=PATH with one of the outputs: {}; or an .npz file, which takes all.", fmt::join(names, ", ")));
        }
        OPW_CHECK(io::write_tensors(path, {*t}));
    }
    return ok_status();
}

}  // namespace opwright::cli
