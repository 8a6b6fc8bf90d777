#include "gluino/image.h"

#include <csetjmp>
#include <cstdio>
// jpeglib.h wants <cstdio> before it.
#include <jpeglib.h>
#include <png.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/file.h"
#include "base/format.h"

namespace gluino::image {
namespace {

constexpr int64_t kMostPixels = int64_t{1} << 28;  // a header that asks for more is taken as damage
// As many pixels come from a byte at most: deflate unpacks it to 1032, of 8 pixels each in a black and white PNG. JPEG stays far below.
constexpr int64_t kMostPixelsOfByte = 1032 * 8;

// Before memory is taken for them.
bool is_believable(int64_t height, int64_t width, std::string_view bytes) {
  return height >= 1 && width >= 1 && height <= kMostPixels / width &&
         height * width / kMostPixelsOfByte <= static_cast<int64_t>(bytes.size());
}

// libjpeg leaves through longjmp: the functions that call it hold nothing with a destructor.
struct JpegError {
  jpeg_error_mgr manager;
  std::jmp_buf jump;
  char text[JMSG_LENGTH_MAX];
};
void leave(j_common_ptr info) {
  auto* error = reinterpret_cast<JpegError*>(info->err);
  info->err->format_message(info, error->text);
  std::longjmp(error->jump, 1);
}
void be_silent(j_common_ptr, int) {}

// False, with the reason in `error.text`, when the file is damaged.
bool read_jpeg(std::string_view bytes, Channels channels, JpegError& error, Tensor& image) {
  jpeg_decompress_struct info;
  info.err = jpeg_std_error(&error.manager);
  error.manager.error_exit = leave;
  error.manager.emit_message = be_silent;
  if (setjmp(error.jump)) {
    jpeg_destroy_decompress(&info);
    return false;
  }
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&info, TRUE);
  if (!is_believable(info.image_height, info.image_width, bytes)) {
    std::snprintf(error.text, sizeof error.text, "%u x %u pixels are more than its %zu bytes can hold", info.image_height, info.image_width,
                  bytes.size());
    jpeg_destroy_decompress(&info);
    return false;
  }
  info.out_color_space = channels == Channels::gray ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(&info);
  image = empty({info.output_height, info.output_width, info.output_components}, {.dtype = DType::uint8});
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = image.mutable_data<uint8_t>() +
                   static_cast<size_t>(info.output_scanline) * info.output_width * static_cast<size_t>(info.output_components);
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return true;
}
Tensor decode_jpeg(std::string_view bytes, Channels channels, const std::string& what) {
  JpegError error;
  Tensor image;
  if (!read_jpeg(bytes, channels, error, image))
    raise<SystemError>("{}: the JPEG is damaged: {}", what, static_cast<const char*>(error.text));
  return image;
}

// Gives a buffer of malloc, or nullptr with the reason in `error.text`.
unsigned char* write_jpeg(const uint8_t* data, int64_t height, int64_t width, int64_t channels, int quality, JpegError& error,
                          unsigned long& size) {
  jpeg_compress_struct info;
  unsigned char* volatile buffer = nullptr;
  info.err = jpeg_std_error(&error.manager);
  error.manager.error_exit = leave;
  if (setjmp(error.jump)) {
    jpeg_destroy_compress(&info);
    std::free(buffer);
    return nullptr;
  }
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, const_cast<unsigned char**>(&buffer), &size);
  info.image_height = static_cast<JDIMENSION>(height);
  info.image_width = static_cast<JDIMENSION>(width);
  info.input_components = static_cast<int>(channels);
  info.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPROW>(data + static_cast<int64_t>(info.next_scanline) * width * channels);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  return buffer;
}
std::string encode_jpeg(const Tensor& image, int quality) {
  JpegError error;
  unsigned long size = 0;
  const std::unique_ptr<unsigned char, void (*)(void*)> buffer(
      write_jpeg(image.data<uint8_t>(), image.extent(0), image.extent(1), image.extent(2), quality, error, size), std::free);
  if (!buffer) raise<SystemError>("imencode: {}", static_cast<const char*>(error.text));
  return std::string(reinterpret_cast<char*>(buffer.get()), size);
}

Tensor decode_png(std::string_view bytes, Channels channels, const std::string& what) {
  png_image info{};
  info.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_memory(&info, bytes.data(), bytes.size()))
    raise<SystemError>("{}: the PNG is damaged: {}", what, info.message);
  info.format = channels == Channels::gray ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  try {
    if (!is_believable(info.height, info.width, bytes))
      raise<SystemError>("{}: the PNG is damaged: {} x {} pixels are more than its {} bytes can hold", what, info.height, info.width,
                         bytes.size());
    Tensor image = empty({info.height, info.width, channels == Channels::gray ? 1 : 3}, {.dtype = DType::uint8});
    const png_color black{0, 0, 0};  // what shows through transparent pixels
    if (!png_image_finish_read(&info, &black, image.mutable_data<uint8_t>(), 0, nullptr))
      raise<SystemError>("{}: the PNG is damaged: {}", what, info.message);
    return image;
  } catch (...) {
    png_image_free(&info);
    throw;
  }
}

std::string encode_png(const Tensor& image) {
  const Shape s = image.shape();
  png_image info{};
  info.version = PNG_IMAGE_VERSION;
  info.height = static_cast<png_uint_32>(s[0]);
  info.width = static_cast<png_uint_32>(s[1]);
  info.format = s[2] == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(info), '\0');
  png_alloc_size_t size = bytes.size();
  if (!png_image_write_to_memory(&info, bytes.data(), &size, 0, image.data<uint8_t>(), 0, nullptr))
    raise<SystemError>("imencode: {}", info.message);
  bytes.resize(size);
  return bytes;
}

}  // namespace

Tensor imdecode(std::string_view bytes, Channels channels, const std::string& what) {
  if (bytes.starts_with("\xff\xd8")) return decode_jpeg(bytes, channels, what);
  if (bytes.starts_with("\x89PNG")) return decode_png(bytes, channels, what);
  raise<SystemError>("{}: neither a JPEG nor a PNG", what);
}
std::string imencode(const Tensor& image, const std::string& format, int quality) {
  const Shape& s = image.shape();
  if (image.dtype() != DType::uint8 || s.ndim() != 3 || (s[2] != 1 && s[2] != 3) || s[0] < 1 || s[1] < 1)
    raise<UserError>("imencode: the image is {} of shape {}, but uint8 (height, width, 1 or 3) is needed", image.dtype(), s);
  if (format == ".png") return encode_png(image);
  if (format == ".jpg" || format == ".jpeg") return encode_jpeg(image, quality);
  raise<UserError>("imencode: '{}' is not .jpg, .jpeg or .png", format);
}
Tensor imread(const std::string& path, Channels channels) { return imdecode(read_file(path), channels, path); }
void imwrite(const std::string& path, const Tensor& image, int quality) {
  const size_t dot = path.rfind('.');
  write_file(path, imencode(image, dot == std::string::npos ? "" : path.substr(dot), quality));
}

}  // namespace gluino::image
