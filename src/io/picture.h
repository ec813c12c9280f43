// Pictures as tensors: PNG and JPEG.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/tensor.h"

namespace opwright::io {

// The stored samples as u8 [height, width, channels]: 1 (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGB, alpha).
// Palettes and 1- to 4-bit greys are expanded, 16-bit samples rounded to 8. No colour management: gamma, profiles and
// the camera's orientation mark are left aside. CMYK is refused. The format is told by the content, not by the name.
// Refused above 2^28 pixels, or when more is claimed than the data can hold; a truncated file is an error.
Result<Tensor> parse_picture(std::string_view bytes, const std::string& name);
Result<Tensor> read_picture(const std::string& path);

// u8 [h, w] or [h, w, 1..4], or bool (false black, true white); .png, or .jpg/.jpeg (quality 95; 1 or 3 channels).
Status write_picture(const std::string& path, const Tensor& t);

}  // namespace opwright::io
