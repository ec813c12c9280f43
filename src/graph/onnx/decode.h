// TensorProto messages to tensors. For the importer alone: includes the protobuf messages.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/tensor.h"
#include "onnx_messages.pb.h"  // generated

namespace opwright::graph::onnx {

namespace pb = ::opwright::onnx;

// The files beside a model that hold its large tensors, mapped into memory once each. A location must stay inside the
// model's folder, also through symbolic links.
class ExternalFiles {
public:
    explicit ExternalFiles(std::string folder) : folder_(std::move(folder)) {}
    struct File {
        const char* data = nullptr;
        uint64_t size = 0;
        ~File();
    };
    Result<std::shared_ptr<File>> open(const std::string& location);

private:
    std::string folder_;  // empty: external data is refused
    std::map<std::string, std::shared_ptr<File>> open_;
};

// The tensor of a message. Raw data are not copied where their alignment allows: `owner` keeps the message alive.
// `files` null: external data is refused. Errors name the tensor.
Result<Tensor> decode_tensor(const pb::TensorProto& t, const std::shared_ptr<const void>& owner, ExternalFiles* files);

}  // namespace opwright::graph::onnx
