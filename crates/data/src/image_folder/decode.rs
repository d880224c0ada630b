//! Decoding of images.

use std::io::Cursor;
use std::path::Path;

use image::{ColorType, ImageReader};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::{Error, Image, Place, Result};

/// Limit on the bytes of a decoded image, so that a short file cannot claim more.
const MOST_BYTES: usize = 512 << 20;

/// Channels of a pixel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Channels {
    /// Luminance; for colours `(19595 r + 38470 g + 7471 b + 32768) >> 16`, which is ITU-R 601-2 as
    /// in Pillow's `convert("L")`.
    Grey,
    /// Red, green, blue; alpha is dropped, as Pillow's `convert("RGB")` does.
    #[default]
    Rgb,
    /// Red, green, blue, alpha; alpha is 255 if the file has none.
    Rgba,
}

impl Channels {
    /// Returns the number of bytes per pixel.
    fn count(self) -> usize {
        match self {
            Channels::Grey => 1,
            Channels::Rgb => 3,
            Channels::Rgba => 4,
        }
    }

    /// Converts pixels of `from` bytes each to these channels.
    fn of(self, pixels: Vec<u8>, from: usize) -> Vec<u8> {
        if from == self.count() {
            return pixels;
        }
        let mut out = Vec::with_capacity(pixels.len() / from * self.count());
        for pixel in pixels.chunks_exact(from) {
            let (rgb, alpha) = match *pixel {
                [grey] => ([grey; 3], 255),
                [grey, alpha] => ([grey; 3], alpha),
                [r, g, b] => ([r, g, b], 255),
                [r, g, b, alpha, ..] => ([r, g, b], alpha),
                [] => continue,
            };
            match self {
                Channels::Grey if from < 3 => out.push(rgb[0]),
                Channels::Grey => {
                    let [r, g, b] = rgb.map(u32::from);
                    out.push(((19595 * r + 38470 * g + 7471 * b + 32768) >> 16) as u8);
                }
                Channels::Rgb => out.extend(rgb),
                Channels::Rgba => out.extend(rgb.into_iter().chain([alpha])),
            }
        }
        out
    }
}

impl Image {
    /// Decodes an image in JPEG, PNG, BMP or a format of the PNM family, for example a field of a
    /// [`TarSample`](crate::TarSample). Errors use `name` as the path.
    ///
    /// The content decides the format, not the name.
    ///
    /// # Determinism
    ///
    /// PNG, BMP and PNM are exact. The JPEG standard leaves the last bits to the decoder: this
    /// decoder computes in integers, without SIMD, so its bytes are the same on every machine. They
    /// differ by up to 3 from those of libjpeg-turbo, which Pillow and torchvision use.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`] for a damaged or incomplete image, and for images of more than 8 bits
    /// per channel, floats or CMYK, whose conversion would lose information; [`Error::TooLarge`]
    /// for a JPEG of more than 512 MiB of pixels.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_data::{Channels, Image};
    ///
    /// let image = Image::decode("1.pgm", b"P5 2 1 255\n\x07\x09", Channels::Grey)?;
    /// assert_eq!((image.width, image.pixels), (2, vec![7, 9]));
    /// # Ok::<(), samebits_data::Error>(())
    /// ```
    pub fn decode(name: impl AsRef<Path>, bytes: &[u8], channels: Channels) -> Result<Self> {
        decode("image", name.as_ref(), bytes, channels)
    }
}

/// Function that makes an image error from the expected and the found content.
type Fail<'a> = &'a dyn Fn(&str, String) -> Error;

pub(super) fn decode(
    op: &'static str,
    path: &Path,
    bytes: &[u8],
    channels: Channels,
) -> Result<Image> {
    let fail =
        |expected: &str, found| Error::malformed(op, path, Place::Offset(0), expected, found);
    let decoded = if bytes.starts_with(&[0xff, 0xd8]) {
        jpeg(bytes, &fail).and_then(|decoded| {
            decoded.ok_or_else(|| {
                let (path, place) = (path.to_owned(), Place::Offset(0));
                Error::TooLarge { op, path, place, what: "an image", most: MOST_BYTES }
            })
        })
    } else {
        other(bytes, &fail)
    };
    let Image { width, height, channels: from, pixels } = decoded?;
    Ok(Image { width, height, channels: channels.count(), pixels: channels.of(pixels, from) })
}

/// Decodes an image in one of the lossless formats. The reader's own limit is also 512 MiB.
fn other(bytes: &[u8], fail: Fail<'_>) -> Result<Image> {
    let image = ImageReader::new(Cursor::new(bytes)).with_guessed_format();
    let image = image
        .map_err(Into::into)
        .and_then(ImageReader::decode)
        .map_err(|error| fail("a JPEG, PNG, BMP or PNM image", error.to_string()))?;
    let channels = match image.color() {
        ColorType::L8 => 1,
        ColorType::La8 => 2,
        ColorType::Rgb8 => 3,
        ColorType::Rgba8 => 4,
        wide => {
            let found = format!("{wide:?}: convert it, since cutting bits would lose them");
            return Err(fail("an image of 8 bits per channel", found));
        }
    };
    let (width, height) = (image.width() as usize, image.height() as usize);
    Ok(Image { width, height, channels, pixels: image.into_bytes() })
}

/// Decodes a JPEG image; `None` if it is too large.
fn jpeg(bytes: &[u8], fail: Fail<'_>) -> Result<Option<Image>> {
    let damaged = |found: String| fail("a whole JPEG image", found);
    // No code for single instruction sets. Strict, because otherwise missing parts become grey.
    let options = DecoderOptions::default()
        .set_use_unsafe(false)
        .set_strict_mode(true)
        .set_max_width(usize::from(u16::MAX))
        .set_max_height(usize::from(u16::MAX));
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(|error| damaged(format!("{error:?}")))?;
    let (space, channels) = match decoder.input_colorspace() {
        Some(ColorSpace::Luma) => (ColorSpace::Luma, 1),
        Some(ColorSpace::YCbCr | ColorSpace::RGB) => (ColorSpace::RGB, 3),
        found => {
            let found = found.map_or_else(|| "none".to_owned(), |space| format!("{space:?}"));
            return Err(fail("a JPEG image of grey or RGB: convert it", found));
        }
    };
    decoder.set_options(options.jpeg_set_out_colorspace(space));
    let (width, height) = decoder.dimensions().unwrap_or_default();
    if width * height > MOST_BYTES / channels {
        return Ok(None);
    }
    // The decoder invents the last few bits of a truncated file.
    if !has_end(bytes) {
        return Err(damaged("no end of the image".to_owned()));
    }
    let pixels = decoder.decode().map_err(|error| damaged(format!("{error:?}")))?;
    if pixels.len() != width * height * channels {
        return Err(damaged(format!("{} bytes of {width} x {height} pixels", pixels.len())));
    }
    Ok(Some(Image { width, height, channels, pixels }))
}

/// Returns true if a JPEG end marker follows the first scan. A preview in the earlier segments has
/// its own end marker.
fn has_end(bytes: &[u8]) -> bool {
    let mut rest = &bytes[2..];
    loop {
        match *rest {
            [0xff, 0xda, ref scans @ ..] => {
                return memchr::memmem::find(scans, &[0xff, 0xd9]).is_some();
            }
            // Fill bytes, and markers without a segment.
            [0xff, 0xff, ..] => rest = &rest[1..],
            [0xff, 0x01 | 0xd0..=0xd7, ..] => rest = &rest[2..],
            [0xff, _, high, low, ..] => {
                let size = usize::from(u16::from_be_bytes([high, low]));
                let Some(behind) = rest.get(2 + size..) else { return false };
                rest = behind;
            }
            _ => return false,
        }
    }
}
