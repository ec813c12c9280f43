// Feeds bytes to the ONNX importer: it must answer with a graph that verifies or with a refusal, within
// bounded time and memory. Nothing is executed. Seeds: onnx_corpus/, made by make_onnx_corpus.py.
//   build-fuzz/onnx_fuzz -rss_limit_mb=2048 -timeout=10 -max_len=65536 CORPUS tests/fuzz/onnx_corpus
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "graph/onnx/import.h"
#include "graph/onnx/tensor_proto.h"

using namespace opwright;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    (void)graph::onnx::tensor_from_proto(bytes);
    auto model = graph::onnx::parse_bytes(bytes);
    if (!model.ok()) return 0;
    (void)graph::onnx::model_inputs(**model);
    (void)graph::onnx::model_outputs(**model);
    graph::onnx::ImportOptions options;
    options.max_nodes = 500;  // functions that double are stopped early
    auto result = graph::onnx::import(**model, options);
    if (const auto* g = std::get_if<graph::Graph>(&result)) {
        for (const std::string& error : graph::verify(*g)) {
            std::fprintf(stderr, "%s\n%s", error.c_str(), graph::print(*g).c_str());
            std::abort();
        }
        (void)graph::print(*g);
    } else {
        (void)render(std::get<graph::onnx::ImportFailure>(result).diagnostic);
    }
    return 0;
}
