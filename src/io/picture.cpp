// libpng and libjpeg report errors by longjmp. Each function that calls setjmp holds plain data only between setjmp and
// the last call into the library (the buffers live with its caller), so that no destructor is ever jumped over.
#include "io/picture.h"

#include <fmt/format.h>
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
// jpeglib.h needs size_t and FILE before it.
#include <jpeglib.h>

#include "io/file.h"

namespace opwright::io {
namespace {

constexpr uint64_t kMaxPixels = uint64_t{1} << 28;
constexpr size_t kMessageLength = 200;

Diagnostic malformed(const std::string& name, std::string_view reason) {
    return Diagnostic(fmt::format("'{}' is not a readable picture: {}.", name, reason), {},
                      "Open it in a picture viewer to check it, or save it again as PNG.");
}

void keep_message(char* to, const char* from) { std::snprintf(to, kMessageLength, "%s", from); }

// ---- PNG
// ----------------------------------------------------------------------------------------------------------------

struct PngInput {
    const char* data;
    size_t size, at = 0;
};

struct PngJob {
    char message[kMessageLength] = "unknown fault";
    png_structp png = nullptr;
    png_infop info = nullptr;
    uint32_t width = 0, height = 0;
    size_t channels = 0, row_bytes = 0;
    uint8_t* pixels = nullptr;
};

void png_fail(png_structp png, png_const_charp message) {
    keep_message(static_cast<PngJob*>(png_get_error_ptr(png))->message, message);
    std::longjmp(png_jmpbuf(png), 1);
}
void png_ignore(png_structp, png_const_charp) {}

void png_read(png_structp png, png_bytep to, size_t n) {
    auto* input = static_cast<PngInput*>(png_get_io_ptr(png));
    if (n > input->size - input->at) png_error(png, "the file ends too early");
    std::memcpy(to, input->data + input->at, n);
    input->at += n;
}

// Reads the header and asks for 8-bit grey or RGB, with or without alpha.
bool png_begin(PngJob& job, PngInput& input) {
    if (setjmp(png_jmpbuf(job.png))) return false;
    png_set_user_limits(job.png, 0x7fffffff, 0x7fffffff);
    png_set_chunk_malloc_max(job.png, 1 << 26);
    png_set_read_fn(job.png, &input, png_read);
    png_read_info(job.png, job.info);
    png_set_scale_16(job.png);
    png_set_expand(job.png);
    png_set_interlace_handling(job.png);
    png_read_update_info(job.png, job.info);
    job.width = png_get_image_width(job.png, job.info);
    job.height = png_get_image_height(job.png, job.info);
    job.channels = png_get_channels(job.png, job.info);
    job.row_bytes = png_get_rowbytes(job.png, job.info);
    return true;
}

bool png_pixels(PngJob& job) {
    if (setjmp(png_jmpbuf(job.png))) return false;
    const int passes = png_get_interlace_type(job.png, job.info) == PNG_INTERLACE_ADAM7 ? 7 : 1;
    for (int pass = 0; pass < passes; ++pass)
        for (uint32_t y = 0; y < job.height; ++y) png_read_row(job.png, job.pixels + y * job.row_bytes, nullptr);
    png_read_end(job.png, nullptr);
    return true;
}

Result<Tensor> parse_png(std::string_view bytes, const std::string& name) {
    PngJob job;
    job.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &job, png_fail, png_ignore);
    if (!job.png) return malformed(name, "libpng cannot be started");
    job.info = png_create_info_struct(job.png);
    struct Cleanup {
        PngJob& job;
        ~Cleanup() { png_destroy_read_struct(&job.png, &job.info, nullptr); }
    } cleanup{job};
    if (!job.info) return malformed(name, "libpng cannot be started");
    PngInput input{bytes.data(), bytes.size()};
    if (!png_begin(job, input)) return malformed(name, job.message);
    const uint64_t pixels = uint64_t{job.width} * job.height;
    if (pixels > kMaxPixels)
        return malformed(
            name, fmt::format("it has {}x{} pixels, and {} in all are the limit", job.width, job.height, kMaxPixels));
    // A bit of one sample at least per pixel, packed by deflate at 1032:1 at best.
    if (pixels / 8 > (bytes.size() + 64) * 1032)
        return malformed(name, fmt::format("it claims {}x{} pixels, more than its {} bytes can hold", job.width,
                                           job.height, bytes.size()));
    Tensor t(DType::U8, {job.height, job.width, static_cast<int64_t>(job.channels)});
    if (job.row_bytes != job.width * job.channels) return malformed(name, "its samples have an unknown form");
    job.pixels = t.as<uint8_t>();
    if (!png_pixels(job)) return malformed(name, job.message);
    return t;
}

void png_append(png_structp png, png_bytep from, size_t n) {
    auto* out = static_cast<std::string*>(png_get_io_ptr(png));
    bool stored = true;
    try {
        out->append(reinterpret_cast<const char*>(from), n);
    } catch (const std::bad_alloc&) { stored = false; }
    if (!stored) png_error(png, "memory is exhausted");  // outside the handler: it is left by a jump
}
void png_flush_nothing(png_structp) {}

bool png_compose(PngJob& job, std::string& out) {
    if (setjmp(png_jmpbuf(job.png))) return false;
    static constexpr int kColours[] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                       PNG_COLOR_TYPE_RGB_ALPHA};
    png_set_user_limits(job.png, 0x7fffffff, 0x7fffffff);
    png_set_write_fn(job.png, &out, png_append, png_flush_nothing);
    png_set_IHDR(job.png, job.info, job.width, job.height, 8, kColours[job.channels], PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(job.png, job.info);
    for (uint32_t y = 0; y < job.height; ++y) png_write_row(job.png, job.pixels + y * job.row_bytes);
    png_write_end(job.png, nullptr);
    return true;
}

Result<std::string> png_bytes(const std::string& path, PngJob& job) {
    job.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &job, png_fail, png_ignore);
    if (job.png) job.info = png_create_info_struct(job.png);
    std::string out;
    const bool done = job.info && png_compose(job, out);
    png_destroy_write_struct(&job.png, &job.info);
    if (!done) return Diagnostic(fmt::format("Cannot write '{}': {}.", path, job.message));
    return out;
}

// ---- JPEG
// ---------------------------------------------------------------------------------------------------------------

struct JpegFault {
    jpeg_error_mgr manager;  // first: libjpeg knows its address only
    std::jmp_buf jump;
    char message[kMessageLength];
};

[[noreturn]] void jpeg_fail(j_common_ptr job) {
    auto* fault = reinterpret_cast<JpegFault*>(job->err);
    char text[JMSG_LENGTH_MAX];
    job->err->format_message(job, text);
    keep_message(fault->message, text);
    std::longjmp(fault->jump, 1);
}
// A negative level is a warning about corrupt data, which libjpeg would paint over in grey.
void jpeg_emit(j_common_ptr job, int level) {
    if (level < 0) jpeg_fail(job);
}
void jpeg_silent(j_common_ptr) {}

void watch(JpegFault& fault) {
    jpeg_std_error(&fault.manager);
    fault.manager.error_exit = jpeg_fail;
    fault.manager.emit_message = jpeg_emit;
    fault.manager.output_message = jpeg_silent;
    std::strcpy(fault.message, "unknown fault");
}

bool jpeg_begin(jpeg_decompress_struct& job, JpegFault& fault, std::string_view bytes) {
    if (setjmp(fault.jump)) return false;
    jpeg_create_decompress(&job);
    jpeg_mem_src(&job, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_read_header(&job, TRUE);
    job.out_color_space = job.jpeg_color_space == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
    job.mem->max_memory_to_use = 1L << 30;
    return true;
}

bool jpeg_pixels(jpeg_decompress_struct& job, JpegFault& fault, uint8_t* to) {
    if (setjmp(fault.jump)) return false;
    jpeg_start_decompress(&job);
    const size_t row = size_t{job.output_width} * static_cast<size_t>(job.output_components);
    while (job.output_scanline < job.output_height) {
        JSAMPROW at = to + job.output_scanline * row;
        jpeg_read_scanlines(&job, &at, 1);
    }
    jpeg_finish_decompress(&job);
    return true;
}

Result<Tensor> parse_jpeg(std::string_view bytes, const std::string& name) {
    jpeg_decompress_struct job{};
    JpegFault fault;
    watch(fault);
    job.err = &fault.manager;
    struct Cleanup {
        jpeg_decompress_struct& job;
        ~Cleanup() { jpeg_destroy_decompress(&job); }
    } cleanup{job};
    if (!jpeg_begin(job, fault, bytes)) return malformed(name, fault.message);
    if (job.jpeg_color_space == JCS_CMYK || job.jpeg_color_space == JCS_YCCK)
        return malformed(name, "its colours are CMYK, and grey and RGB are read");
    const uint64_t pixels = uint64_t{job.image_width} * job.image_height;
    if (pixels > kMaxPixels)
        return malformed(name, fmt::format("it has {}x{} pixels, and {} in all are the limit", job.image_width,
                                           job.image_height, kMaxPixels));
    // An 8x8 block of the first component takes two bits at least (one code each for DC and end of block); progressive
    // and arithmetic coding get below that, by a factor that 64 covers.
    if (pixels / 64 / 4 / 64 > bytes.size())
        return malformed(name, fmt::format("it claims {}x{} pixels, more than its {} bytes can hold", job.image_width,
                                           job.image_height, bytes.size()));
    Tensor t(DType::U8, {job.image_height, job.image_width, job.out_color_space == JCS_GRAYSCALE ? 1 : 3});
    if (!jpeg_pixels(job, fault, t.as<uint8_t>())) return malformed(name, fault.message);
    return t;
}

struct JpegOutput {
    unsigned char* data = nullptr;
    unsigned long size = 0;
    ~JpegOutput() { std::free(data); }
};

bool jpeg_compose(jpeg_compress_struct& job, JpegFault& fault, JpegOutput& out, const PngJob& picture) {
    if (setjmp(fault.jump)) return false;
    jpeg_create_compress(&job);
    jpeg_mem_dest(&job, &out.data, &out.size);
    job.image_width = picture.width;
    job.image_height = picture.height;
    job.input_components = static_cast<int>(picture.channels);
    job.in_color_space = picture.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&job);
    jpeg_set_quality(&job, 95, TRUE);
    jpeg_start_compress(&job, TRUE);
    while (job.next_scanline < job.image_height) {
        JSAMPROW at = picture.pixels + job.next_scanline * picture.row_bytes;
        jpeg_write_scanlines(&job, &at, 1);
    }
    jpeg_finish_compress(&job);
    return true;
}

Result<std::string> jpeg_bytes(const std::string& path, const PngJob& picture) {
    jpeg_compress_struct job{};
    JpegFault fault;
    watch(fault);
    job.err = &fault.manager;
    JpegOutput out;
    const bool done = jpeg_compose(job, fault, out, picture);
    jpeg_destroy_compress(&job);
    if (!done) return Diagnostic(fmt::format("Cannot write '{}': {}.", path, fault.message));
    return std::string(reinterpret_cast<const char*>(out.data), out.size);
}

}  // namespace

Result<Tensor> parse_picture(std::string_view bytes, const std::string& name) {
    if (bytes.substr(0, 4) == "\x89PNG") return parse_png(bytes, name);
    if (bytes.substr(0, 3) == "\xff\xd8\xff") return parse_jpeg(bytes, name);
    return malformed(name, "it is neither PNG nor JPEG");
}

Result<Tensor> read_picture(const std::string& path) {
    OPW_TRY(const std::string bytes, read_file(path));
    return parse_picture(bytes, path);
}

Status write_picture(const std::string& path, const Tensor& t) {
    const std::string ext = extension(path);
    const bool jpeg = ext == ".jpg" || ext == ".jpeg";
    if (!jpeg && ext != ".png")
        return Diagnostic(fmt::format("Cannot write '{}': a picture's name ends in .png, .jpg or .jpeg.", path));
    const int64_t channels = t.rank() == 3 ? t.shape()[2] : 1;
    if ((t.dtype() != DType::U8 && t.dtype() != DType::Bool) || t.rank() < 2 || t.rank() > 3 || channels < 1 ||
        channels > 4)
        return Diagnostic(
            fmt::format("Cannot write '{}': a tensor {} of {} is no picture.", path, to_string(t.shape()),
                        name(t.dtype())),
            {},
            "A picture is u8 or bool, [height, width] or [height, width, 1 to 4 channels]; cast or transpose first, "
            "or write a .npy file.");
    if (jpeg && channels != 1 && channels != 3)
        return Diagnostic(
            fmt::format("Cannot write '{}': JPEG has no alpha, and the tensor has {} channels.", path, channels), {},
            "Write a .png file instead.");
    const int64_t limit = jpeg ? 65500 : 0x7fffffff;
    if (t.size() == 0 || t.shape()[0] > limit || t.shape()[1] > limit)
        return Diagnostic(
            fmt::format("Cannot write '{}': a {} picture has 1 to {} pixels a side, and the tensor is {}.", path,
                        jpeg ? "JPEG" : "PNG", limit, to_string(t.shape())));
    Tensor samples = t;
    if (t.dtype() == DType::Bool) {
        samples = Tensor(DType::U8, t.shape());
        for (int64_t i = 0; i < t.size(); ++i) samples.as<uint8_t>()[i] = t.as<uint8_t>()[i] ? 255 : 0;
    }
    PngJob job;
    job.height = static_cast<uint32_t>(t.shape()[0]);
    job.width = static_cast<uint32_t>(t.shape()[1]);
    job.channels = static_cast<size_t>(channels);
    job.row_bytes = job.width * job.channels;
    job.pixels = samples.as<uint8_t>();
    OPW_TRY(const std::string bytes, jpeg ? jpeg_bytes(path, job) : png_bytes(path, job));
    return write_file(path, bytes);
}

}  // namespace opwright::io
