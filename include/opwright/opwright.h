/* Opwright's C ABI: load a model or declare an operator, run it, inspect it, profile it.
 *
 * Plain C99, so that any language can bind it. What holds everywhere:
 *
 * - Names and enumeration values are stable: later versions only add. opw_abi_version() says which additions are there.
 * - Handles are opaque and belong to the caller, who frees each one with its own opw_..._free (NULL is allowed there).
 * - A function that can fail returns an opw_status and takes `opw_error** error` last. On failure no other output is
 *   written, and *error (where error is not NULL) receives a new error to be freed with opw_error_free. On success
 *   *error is left alone. No call throws, exits or aborts for something its caller can cause.
 * - Text is UTF-8 and ends in a zero byte. A returned `const char*` belongs to the handle that it was asked of and
 *   lives as long; a returned `char*` belongs to the caller: opw_string_free.
 * - Elements are dense, row-major, in the machine's byte order. Extents count elements, never bytes.
 * - Threads: any handle may be used from any thread. Calls on one handle wait for one another; calls on different
 *   handles run side by side. Freeing a handle that another thread still uses is the caller's fault.
 */
#ifndef OPWRIGHT_OPWRIGHT_H
#define OPWRIGHT_OPWRIGHT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define OPW_API __attribute__((visibility("default")))
#else
#define OPW_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define OPW_ABI_VERSION 1

/* ---- versions ---------------------------------------------------------------------------------------------------- */

OPW_API int opw_abi_version(void);         /* OPW_ABI_VERSION of the library that was loaded */
OPW_API const char* opw_version(void);     /* "0.1.0"; lives for ever */

/* ---- element types ----------------------------------------------------------------------------------------------- */

typedef enum opw_dtype {
    OPW_BOOL = 0, /* one byte, 0 or 1 */
    OPW_I8 = 1,
    OPW_I16 = 2,
    OPW_I32 = 3,
    OPW_I64 = 4,
    OPW_U8 = 5,
    OPW_U16 = 6,
    OPW_U32 = 7,
    OPW_U64 = 8,
    OPW_F16 = 9,   /* IEEE binary16 */
    OPW_BF16 = 10, /* upper half of binary32 */
    OPW_F32 = 11,
    OPW_F64 = 12
} opw_dtype;

OPW_API size_t opw_dtype_size(opw_dtype dtype);      /* bytes of one element; 0 for a value that is no dtype */
OPW_API const char* opw_dtype_name(opw_dtype dtype); /* "f32"; NULL for a value that is no dtype; lives for ever */

/* ---- errors ------------------------------------------------------------------------------------------------------ */

typedef enum opw_status {
    OPW_OK = 0,
    OPW_INVALID_ARGUMENT = 1, /* a NULL, an unknown name, a wrong dtype or shape */
    OPW_IO = 2,               /* a file that cannot be read or written */
    OPW_MALFORMED = 3,        /* a file or a text that breaks its own format's rules */
    OPW_UNSUPPORTED = 4,      /* well-formed, and beyond what this version does: the text lists every reason */
    OPW_OUT_OF_MEMORY = 5,
    OPW_INTERNAL = 6          /* a fault in Opwright; please report it with the text */
} opw_status;

typedef struct opw_error opw_error;

OPW_API opw_status opw_error_status(const opw_error* error);
/* One sentence: the thing and the reason. */
OPW_API const char* opw_error_message(const opw_error* error);
/* Everything: the sentence, the place in the source with a caret, facts, the next step. Several lines, no colours. */
OPW_API const char* opw_error_text(const opw_error* error);
OPW_API void opw_error_free(opw_error* error);

OPW_API void opw_string_free(char* text);

/* ---- options ----------------------------------------------------------------------------------------------------- */

typedef struct opw_options opw_options;

/* All defaults. NULL stands for the same wherever options are asked for. */
OPW_API opw_options* opw_options_new(void);
/* Sets one option by name; an unknown name or value is OPW_INVALID_ARGUMENT, with the names that exist in the text.
 *   threads      "1", "2", ...; "0" = as many as the process may use (default)
 *   cache        "1" (default) keeps compiled objects on disk, in OPWRIGHT_CACHE_DIR, else the user's cache folder; "0"
 *                does not
 *   fuse         "1" (default); "0" keeps one kernel for each operator
 *   winograd     "1": 3x3 convolutions of models in Winograd's form where that is predicted to be faster; they round
 *                otherwise (docs/numerics.md). "0" (default): as they are declared
 *   vector       "auto" (default), "avx512", "avx2", "baseline": the widest vector unit to use
 *   warmup       profile: runs before the measured ones (default "3")
 *   repeats      profile: measured runs (default "10") */
OPW_API opw_status opw_options_set(opw_options* options, const char* name, const char* value, opw_error** error);
OPW_API void opw_options_free(opw_options* options);

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* A tensor in the caller's memory, borrowed for the duration of one call. `shape` may be NULL when rank is 0 (one
 * element), `data` may be NULL when the tensor has no element. */
typedef struct opw_tensor {
    const char* name; /* of the input that it feeds; NULL = the input at the same position */
    opw_dtype dtype;
    int32_t rank;
    const int64_t* shape;
    const void* data; /* aligned to the element's size at least */
} opw_tensor;

/* What a run returned: tensors in memory that this handle owns and nobody else uses; the caller may write to it. */
typedef struct opw_tensors opw_tensors;

OPW_API size_t opw_tensors_count(const opw_tensors* tensors);
/* Fills *out with pointers that live as long as `tensors`; OPW_INVALID_ARGUMENT when index >= count. */
OPW_API opw_status opw_tensors_get(const opw_tensors* tensors, size_t index, opw_tensor* out, opw_error** error);
OPW_API void opw_tensors_free(opw_tensors* tensors);

/* ---- models ------------------------------------------------------------------------------------------------------ */

typedef struct opw_model opw_model;

/* Reads an ONNX model, with external data beside it, and prepares it: symbolic extents stay symbolic, so one model
 * serves every size. Kernels are compiled here or in the first run, and come from the cache where they can. */
OPW_API opw_status opw_model_load(const char* path, const opw_options* options, opw_model** model, opw_error** error);
/* The same from memory (which may be freed afterwards); external data is refused. */
OPW_API opw_status opw_model_load_bytes(const void* bytes, size_t size, const opw_options* options, opw_model** model,
                                        opw_error** error);
OPW_API void opw_model_free(opw_model* model);

/* An input or output as the model declares it. */
typedef struct opw_value {
    const char* name;
    opw_dtype dtype;
    int32_t rank;               /* -1 where the model does not say */
    const int64_t* shape;       /* rank extents; -1 = symbolic */
    const char* const* symbols; /* rank entries: the symbol's name ("N"), or NULL where the extent is a number */
} opw_value;

/* Inputs are those that a caller must give: an initialiser is none. Pointers in *out live as long as the model. */
OPW_API size_t opw_model_input_count(const opw_model* model);
OPW_API opw_status opw_model_input(const opw_model* model, size_t index, opw_value* out, opw_error** error);
OPW_API size_t opw_model_output_count(const opw_model* model);
OPW_API opw_status opw_model_output(const opw_model* model, size_t index, opw_value* out, opw_error** error);
/* Free-form metadata stored in the model (ONNX metadata_props); NULL when the key is absent. */
OPW_API const char* opw_model_metadata(const opw_model* model, const char* key);

/* Runs once. Every input of the model must be given exactly once. `wanted` lists output names (NULL or count 0 = all,
 * in the model's order); *outputs holds them in that order. */
OPW_API opw_status opw_model_run(opw_model* model, const opw_tensor* inputs, size_t input_count,
                                 const char* const* wanted, size_t wanted_count, opw_tensors** outputs,
                                 opw_error** error);

/* Measures warm runs on these inputs. The JSON is what `opwright profile MODEL --json` prints: total_ms and a row an
 * operator. */
OPW_API opw_status opw_model_profile_json(opw_model* model, const opw_tensor* inputs, size_t input_count,
                                          const opw_options* options, char** json, opw_error** error);

/* ---- declared operators ------------------------------------------------------------------------------------------ */

/* The declarations of one text; they may call operators of the built-in library. */
typedef struct opw_library opw_library;

/* `name` is what messages call the text (a path, or NULL). */
OPW_API opw_status opw_library_parse(const char* text, const char* name, opw_library** library, opw_error** error);
OPW_API void opw_library_free(opw_library* library);
OPW_API size_t opw_library_count(const opw_library* library);
OPW_API const char* opw_library_operator(const opw_library* library, size_t index); /* NULL when index >= count */
/* What is derived from a declaration: shape rule, cost, reference. The JSON of `opwright explain FILE --json`. */
OPW_API opw_status opw_library_explain_json(const opw_library* library, const char* name, char** json,
                                            opw_error** error);

typedef struct opw_operator opw_operator;

/* Compiles one operator, of `library` or, with library NULL, of the built-in one, for any extents. `attributes` as the
 * language writes them, "stride = 2, pad = 1"; NULL or "" = every default. Dtype variables are bound by the first run. */
OPW_API opw_status opw_operator_compile(const opw_library* library, const char* name, const char* attributes,
                                        const opw_options* options, opw_operator** op, opw_error** error);
OPW_API opw_status opw_operator_run(opw_operator* op, const opw_tensor* inputs, size_t input_count,
                                    opw_tensors** outputs, opw_error** error);
OPW_API void opw_operator_free(opw_operator* op);

/* ---- the machine ------------------------------------------------------------------------------------------------- */

/* The JSON of `opwright doctor --json`. */
OPW_API opw_status opw_doctor_json(char** json, opw_error** error);

#ifdef __cplusplus
}
#endif

#endif
