#include <gtest/gtest.h>

#include <fstream>

#include "graph/onnx/decode.h"
#include "graph_model_builder.h"
#include "io_test_util.h"

namespace opwright::graph::onnx {
namespace {

namespace pb = ::opwright::onnx;

Result<NamedTensorProto> decoded(const pb::TensorProto& t) { return tensor_from_proto(t.SerializeAsString()); }

TEST(GraphTensorProto, EveryElementTypeSurvivesTheRoundTrip) {
    for (int i = 0; i < kDTypeCount; ++i) {
        const auto type = static_cast<DType>(i);
        Tensor t(type, {2, 3});
        for (int64_t k = 0; k < 6; ++k) t.set_int(k, type == DType::Bool ? k % 2 : k - (is_unsigned_int(type) ? 0 : 3));
        auto r = tensor_from_proto(tensor_to_proto(t, "t"));
        ASSERT_TRUE(r.ok()) << name(type);
        EXPECT_EQ(r->name, "t");
        EXPECT_EQ(r->tensor.dtype(), type);
        EXPECT_EQ(r->tensor.shape(), (Shape{2, 3}));
        for (int64_t k = 0; k < 6; ++k) EXPECT_EQ(r->tensor.get(k), t.get(k)) << name(type);
    }
}

TEST(GraphTensorProto, TypedFieldsHoldTheNarrowTypesWidened) {
    const auto narrow = [](int32_t type, std::initializer_list<int32_t> v) {
        pb::TensorProto t;
        t.set_data_type(type);
        t.add_dims(static_cast<int64_t>(v.size()));
        for (int32_t x : v) t.add_int32_data(x);
        return decoded(t)->tensor;
    };
    EXPECT_EQ(narrow(10, {0x3c00, 0xc000}).get(0), 1.0);  // float16 as its bits
    EXPECT_EQ(narrow(10, {0x3c00, 0xc000}).get(1), -2.0);
    EXPECT_EQ(narrow(16, {0x3f80}).get(0), 1.0);  // bfloat16
    EXPECT_EQ(narrow(3, {-7}).get(0), -7.0);      // int8
    EXPECT_EQ(narrow(2, {200}).get(0), 200.0);    // uint8
    EXPECT_EQ(narrow(9, {5, 0}).get(0), 1.0);     // bool: anything but 0
    pb::TensorProto u;
    u.set_data_type(12);
    u.add_dims(1);
    u.add_uint64_data(4000000000u);
    EXPECT_EQ(decoded(u)->tensor.get(0), 4e9);
    pb::TensorProto f;
    f.set_data_type(1);
    f.add_float_data(0.5f);
    EXPECT_EQ(decoded(f)->tensor.rank(), 0);
    EXPECT_EQ(decoded(f)->tensor.get(0), 0.5);
}

// What kernels read in every run lies in whole lines; what is large is not copied.
TEST(GraphTensorProto, SmallTensorsBeginWithALine) {
    const auto model = std::make_shared<pb::GraphProto>();
    for (int64_t n : {3, 5, 17, 33, 100, 129, 1000, 600000}) {
        pb::TensorProto& t = *model->add_initializer();
        t.set_data_type(1);
        t.add_dims(n);
        std::vector<float> v(static_cast<size_t>(n));
        for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i) - 7;
        t.set_raw_data(v.data(), v.size() * sizeof(float));
    }
    for (const pb::TensorProto& t : model->initializer()) {
        const auto r = decode_tensor(t, model, nullptr);
        ASSERT_TRUE(r.ok());
        if (r->bytes() < 100000) EXPECT_EQ(reinterpret_cast<uintptr_t>(r->data()) % 64, 0u) << r->size();
        else EXPECT_EQ(static_cast<const void*>(r->data()), static_cast<const void*>(t.raw_data().data()));
        for (int64_t i = 0; i < r->size(); ++i) ASSERT_EQ(r->get(i), static_cast<double>(i - 7));
    }
}

TEST(GraphTensorProto, WhatCannotBeReadIsRefused) {
    const auto message = [](int32_t type, std::initializer_list<int64_t> dims, const std::string& raw) {
        pb::TensorProto t;
        t.set_name("w");
        t.set_data_type(type);
        for (int64_t d : dims) t.add_dims(d);
        t.set_raw_data(raw);
        auto r = decoded(t);
        return r.ok() ? "read" : r.error().message;
    };
    EXPECT_EQ(message(1, {2}, "1234"),
              "The file is damaged: the tensor 'w' of shape [2] and type f32 has 4 bytes of data.");
    EXPECT_EQ(message(1, {2}, ""),
              "The file is damaged: the tensor 'w' of shape [2] has 2 elements, and its float_data holds 0.");
    EXPECT_EQ(message(1, {-1}, "1234"),
              "The file is damaged: the shape [-1] of the tensor 'w' is none a tensor can have.");
    EXPECT_EQ(message(1, {int64_t{1} << 62, 8}, "1234"),
              "The file is damaged: the shape [4611686018427387904, 8] of the tensor 'w' is none a tensor can have.");
    EXPECT_EQ(message(17, {1}, "1"), "The element type float8e4m3fn of the tensor 'w' is not supported.");
    EXPECT_EQ(message(8, {1}, "1"), "The element type string of the tensor 'w' is not supported.");
    EXPECT_EQ(message(99, {1}, "1"), "The element type number 99 of the tensor 'w' is not supported.");
    EXPECT_EQ(message(1, {0, 5}, ""), "read");
    EXPECT_EQ(tensor_from_proto("\xff\xff\xff").error().message, "These bytes are no ONNX tensor.");
}

// A model whose one initialiser is in another file.
pb::ModelProto external_model(const std::string& location, const std::string& offset, const std::string& length) {
    ModelBuilder b;
    auto& t = *b.graph().add_initializer();
    t.set_name("w");
    t.set_data_type(1);
    t.add_dims(2);
    t.set_data_location(1);
    for (const auto& [key, value] : {std::pair{"location", location}, {"offset", offset}, {"length", length}}) {
        if (value.empty()) continue;
        auto& e = *t.add_external_data();
        e.set_key(key);
        e.set_value(value);
    }
    b.output("w");
    return b.model;
}

TEST(GraphExternalData, AreReadFromTheModelsFolderAlone) {
    io::ScratchFolder folder;
    std::ofstream(folder / "secret.bin") << "12345678";
    std::filesystem::create_directory(folder.path() / "model");
    std::ofstream(folder.path() / "model" / "w.bin") << std::string("....\0\0\x80\x3f\0\0\0\x40", 12);
    std::filesystem::create_symlink("../secret.bin", folder.path() / "model" / "link.bin");
    const auto load = [&](const std::string& location, const std::string& offset,
                          const std::string& length) -> std::string {
        const std::string path = folder / "model/m.onnx";
        std::ofstream(path, std::ios::binary) << external_model(location, offset, length).SerializeAsString();
        auto m = parse_file(path);
        if (!m.ok()) return m.error().message;
        auto r = import(**m, {});
        if (auto* f = std::get_if<ImportFailure>(&r)) return f->diagnostic.message;
        const Graph& g = std::get<Graph>(r);
        const Tensor& t = *g.values[g.outputs[0]].constant;
        return std::to_string(t.get(0)) + " " + std::to_string(t.get(1));
    };
    EXPECT_EQ(load("w.bin", "4", "8"), "1.000000 2.000000");
    EXPECT_EQ(load("./w.bin", "4", ""), "1.000000 2.000000");
    EXPECT_EQ(load("w.bin", "8", "8"),
              "The external data 'w.bin' are too short: the tensor 'w' wants bytes 8 to 16, and the file has 12.");
    EXPECT_EQ(load("w.bin", "18446744073709551615", ""),
              "The external data 'w.bin' are too short: the tensor 'w' wants bytes 18446744073709551615 to 7, and the "
              "file has 12.");
    EXPECT_EQ(load("w.bin", "-4", ""), "The file is damaged: the offset of the tensor 'w' is '-4', no number.");
    EXPECT_EQ(load("w.bin", "4", "4"),
              "The file is damaged: the tensor 'w' of shape [2] has 8 bytes, and its external data have 4.");
    const std::string outside = "' lie outside the model's folder.";
    EXPECT_EQ(load("../secret.bin", "", ""), "The model's external data '../secret.bin" + outside);
    EXPECT_EQ(load("link.bin", "", ""), "The model's external data 'link.bin" + outside);
    EXPECT_EQ(load(folder / "secret.bin", "", ""), "The model's external data '" + (folder / "secret.bin") + outside);
    EXPECT_EQ(load("none.bin", "", "").rfind("The model's external data 'none.bin' cannot be found in ", 0), 0u);
    EXPECT_EQ(load(".", "", ""), "The model's external data '.' are no file that can be read.");

    auto m = parse_bytes(external_model("w.bin", "4", "8").SerializeAsString());
    auto r = import(**m, {});
    EXPECT_EQ(std::get<ImportFailure>(r).diagnostic.message,
              "The model keeps tensors in the file 'w.bin', and a model given as bytes has no folder.");
}

}  // namespace
}  // namespace opwright::graph::onnx
