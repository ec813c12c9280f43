// Models through the C ABI.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "api/handles.h"
#include "explain/profile.h"
#include "runtime/thread_pool.h"

using namespace opwright;
using namespace opwright::api;

namespace {

opw_status status_of(Model::Refusal r, opw_status otherwise) {
    switch (r) {
        case Model::Refusal::None: return otherwise;
        case Model::Refusal::Malformed: return OPW_MALFORMED;
        case Model::Refusal::Unsupported: return OPW_UNSUPPORTED;
    }
    return otherwise;
}

void describe(const std::vector<graph::onnx::ModelValue>& from, std::vector<std::unique_ptr<opw_model::Value>>& to) {
    for (const auto& v : from) {
        auto x = std::make_unique<opw_model::Value>();
        for (const math::Sym& s : v.shape) {
            x->shape.push_back(s.constant().value_or(-1));
            x->symbols.push_back(s.is_const() ? "" : s.str());
        }
        for (size_t i = 0; i < x->symbols.size(); ++i) x->symbol_pointers.push_back(x->shape[i] >= 0 ? nullptr : x->symbols[i].c_str());
        x->value = {v.name.c_str(), static_cast<opw_dtype>(v.dtype), v.has_rank ? static_cast<int32_t>(v.shape.size()) : -1, x->shape.data(),
                    x->symbol_pointers.data()};
        to.push_back(std::move(x));
    }
}

opw_model* finish(std::shared_ptr<Model> m) {
    for (const auto* list : {&m->inputs(), &m->outputs()})
        for (const auto& v : *list)
            if (!v.unsupported.empty())
                refuse(OPW_UNSUPPORTED, Diagnostic(fmt::format("'{}' of the model is {}, which Opwright has not.", v.name, v.unsupported)));
    auto prepared = m->prepare();
    if (!prepared.ok()) refuse(status_of(m->refusal(), OPW_UNSUPPORTED), prepared.error());
    auto h = std::make_unique<opw_model>();
    h->metadata = graph::onnx::model_metadata(*m->source());
    describe(m->inputs(), h->inputs);
    describe(m->outputs(), h->outputs);
    h->model = std::move(m);
    return h.release();
}

NamedInputs named_inputs(const opw_model& h, const opw_tensor* inputs, size_t count) {
    require(inputs || count == 0, "The inputs must not be NULL.");
    const auto& declared = h.model->inputs();
    NamedInputs r;
    for (size_t i = 0; i < count; ++i) {
        if (!inputs[i].name && i >= declared.size())
            refuse(OPW_INVALID_ARGUMENT, Diagnostic(fmt::format("The model takes {} inputs, and {} were given.", declared.size(), count)));
        const std::string n = inputs[i].name ? inputs[i].name : declared[i].name;
        if (!r.emplace(n, borrowed(inputs[i], "'" + n + "'")).second)
            refuse(OPW_INVALID_ARGUMENT, Diagnostic(fmt::format("Input '{}' is given twice.", n)));
    }
    return r;
}

// Positions of the outputs asked for.
std::vector<size_t> wanted_outputs(const opw_model& h, const char* const* wanted, size_t count) {
    const auto& declared = h.model->outputs();
    std::vector<size_t> r;
    if (!wanted || count == 0) {
        for (size_t i = 0; i < declared.size(); ++i) r.push_back(i);
        return r;
    }
    std::vector<std::string> names;
    for (const auto& v : declared) names.push_back(v.name);
    for (size_t i = 0; i < count; ++i) {
        require(wanted[i], "The name of a wanted output must not be NULL.");
        const auto it = std::find(names.begin(), names.end(), wanted[i]);
        if (it == names.end()) {
            const std::string near = did_you_mean(wanted[i], names);
            refuse(OPW_INVALID_ARGUMENT, Diagnostic(fmt::format("The model has no output named '{}'.", wanted[i]))
                                             .with_next(near.empty() ? fmt::format("Its outputs are: {}.", fmt::join(names, ", "))
                                                                     : fmt::format("Did you mean '{}'?", near)));
        }
        r.push_back(static_cast<size_t>(it - names.begin()));
    }
    return r;
}

opw_status get_value(const std::vector<std::unique_ptr<opw_model::Value>>& values, size_t i, opw_value* out, const char* what, opw_error** error) {
    return guarded(error, [&] {
        require(out, "The place for the result must not be NULL.");
        if (i >= values.size()) refuse(OPW_INVALID_ARGUMENT, Diagnostic(fmt::format("There is no {} {}: there are {}.", what, i, values.size())));
        *out = values[i]->value;
    });
}
const std::vector<std::unique_ptr<opw_model::Value>> kNoValues;
}  // namespace

extern "C" {

opw_status opw_model_load(const char* path, const opw_options* options, opw_model** model, opw_error** error) {
    return guarded(error, [&] {
        require(path && model, "The path and the place for the model must not be NULL.");
        std::FILE* f = std::fopen(path, "rb");
        if (!f) refuse(OPW_IO, Diagnostic(fmt::format("'{}' cannot be read: {}.", path, std::strerror(errno))));
        std::fclose(f);
        *model = finish(value_or_refuse(Model::load(path, compile_options(options), make_pool(options)), OPW_MALFORMED));
    });
}

opw_status opw_model_load_bytes(const void* bytes, size_t size, const opw_options* options, opw_model** model, opw_error** error) {
    return guarded(error, [&] {
        require((bytes || size == 0) && model, "The bytes and the place for the model must not be NULL.");
        const std::string_view text(static_cast<const char*>(bytes), size);
        *model = finish(value_or_refuse(Model::parse(text, compile_options(options), make_pool(options)), OPW_MALFORMED));
    });
}

void opw_model_free(opw_model* m) { delete m; }

size_t opw_model_input_count(const opw_model* m) { return m ? m->inputs.size() : 0; }
opw_status opw_model_input(const opw_model* m, size_t i, opw_value* out, opw_error** error) {
    return get_value(m ? m->inputs : kNoValues, i, out, "input", error);
}
size_t opw_model_output_count(const opw_model* m) { return m ? m->outputs.size() : 0; }
opw_status opw_model_output(const opw_model* m, size_t i, opw_value* out, opw_error** error) {
    return get_value(m ? m->outputs : kNoValues, i, out, "output", error);
}

const char* opw_model_metadata(const opw_model* m, const char* key) {
    if (!m || !key) return nullptr;
    try {
        const auto it = m->metadata.find(key);
        return it == m->metadata.end() ? nullptr : it->second.c_str();
    } catch (...) {
        return nullptr;
    }
}

opw_status opw_model_run(opw_model* m, const opw_tensor* inputs, size_t input_count, const char* const* wanted, size_t wanted_count,
                         opw_tensors** outputs, opw_error** error) {
    return guarded(error, [&] {
        require(m && outputs, "The model and the place for the outputs must not be NULL.");
        const std::lock_guard lock(m->mutex);
        const NamedInputs given = named_inputs(*m, inputs, input_count);
        const std::vector<size_t> order = wanted_outputs(*m, wanted, wanted_count);
        auto r = m->model->run(given);
        if (!r.ok()) refuse(status_of(m->model->refusal(), OPW_INVALID_ARGUMENT), r.error());
        auto h = std::make_unique<opw_tensors>();
        for (size_t i : order) {
            h->names.push_back(m->model->outputs()[i].name);
            h->tensors.push_back((*r)[i]);
        }
        *outputs = h.release();
    });
}

opw_status opw_model_profile_json(opw_model* m, const opw_tensor* inputs, size_t input_count, const opw_options* options, char** json,
                                  opw_error** error) {
    return guarded(error, [&] {
        require(m && json, "The model and the place for the text must not be NULL.");
        const std::lock_guard lock(m->mutex);
        const NamedInputs given = named_inputs(*m, inputs, input_count);
        if (auto r = m->model->run(given); !r.ok()) refuse(status_of(m->model->refusal(), OPW_INVALID_ARGUMENT), r.error());
        const auto version = value_or_refuse(m->model->version(given), OPW_UNSUPPORTED);
        const auto arguments = value_or_refuse(m->model->arguments(*version, given), OPW_INVALID_ARGUMENT);
        const auto machine = value_or_refuse(explain::measure_machine(m->model->pool()), OPW_INTERNAL);
        explain::ProfileOptions o;
        if (options) o.warmup = options->warmup, o.repeats = options->repeats;
        const auto p = value_or_refuse(explain::profile(*version, arguments, machine, m->model->pool(), o), OPW_INVALID_ARGUMENT);
        *json = copied(explain::to_json(p).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    });
}

}  // extern "C"
