#include "io/tensors.h"

#include <fmt/format.h>

#include "graph/onnx/tensor_proto.h"
#include "io/file.h"
#include "io/npy.h"
#include "io/picture.h"

namespace opwright::io {
namespace {

constexpr std::string_view kKinds = "Known kinds are .npy, .npz, .pb (an ONNX tensor), .png and .jpg.";

bool is_picture(const std::string& kind) { return kind == ".png" || kind == ".jpg" || kind == ".jpeg"; }

Diagnostic unknown(std::string_view verb, const std::string& path) {
    return Diagnostic(fmt::format("Cannot {} '{}': the ending of its name tells no kind of file.", verb, path), {},
                      std::string(kKinds));
}

Result<std::vector<NamedTensor>> single(Result<Tensor> t) {
    if (!t.ok()) return t.error();
    return std::vector<NamedTensor>{{"", *std::move(t)}};
}

}  // namespace

Result<std::vector<NamedTensor>> read_tensors(const std::string& path) {
    const std::string kind = extension(path);
    if (kind == ".npz") return read_npz(path);
    if (kind == ".npy") return single(read_npy(path));
    if (is_picture(kind)) return single(read_picture(path));
    if (kind != ".pb") return unknown("read", path);
    OPW_TRY(const std::string bytes, read_file(path));
    auto t = graph::onnx::tensor_from_proto(bytes);
    if (!t.ok()) {
        Diagnostic d = t.error();
        return d.with_note(fmt::format("in the file '{}'", path));
    }
    return std::vector<NamedTensor>{{t->name, t->tensor}};
}

Status write_tensors(const std::string& path, const std::vector<NamedTensor>& tensors) {
    const std::string kind = extension(path);
    if (kind == ".npz") return write_npz(path, tensors);
    if (kind != ".npy" && kind != ".pb" && !is_picture(kind)) return unknown("write", path);
    if (tensors.size() != 1)
        return Diagnostic(fmt::format("Cannot write '{}': there are {} tensors, and a {} file holds one.", path,
                                      tensors.size(), kind),
                          {}, "Name a .npz file, which holds any number.");
    const auto& [name, tensor] = tensors[0];
    if (kind == ".npy") return write_npy(path, tensor);
    if (kind == ".pb") return write_file(path, graph::onnx::tensor_to_proto(tensor, name));
    return write_picture(path, tensor);
}

}  // namespace opwright::io
