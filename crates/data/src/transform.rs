//! Transforms of images, with torchvision's names and defaults.
//!
//! A random transform draws from the generator given to it. With the sample's own generator,
//! [`SampleContext::rng`](crate::SampleContext::rng), the result does not depend on workers or on
//! the point of resumption.

use samebits_numerics::memory;
use samebits_rng::Generator;

mod affine;
mod jitter;
mod mix;

pub use affine::{Affine, Interpolation, RandomAffine};
pub use jitter::ColorJitter;
pub use mix::{CutMix, MixUp};

use crate::memory::allocated;
use crate::{Error, Result};

/// An image of 8 bits per channel.
///
/// # Shapes
///
/// `pixels` holds `height * width * channels` bytes: rows from the top, pixels from the left,
/// the channels of a pixel together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Pixels per row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Bytes per pixel.
    pub channels: usize,
    /// The bytes.
    pub pixels: Vec<u8>,
}

impl Image {
    /// Checks that the number of bytes matches the sizes.
    fn check(&self, op: &'static str) -> Result<()> {
        let Image { width, height, channels, pixels } = self;
        if memory::product(&[*width, *height, *channels]) == Some(pixels.len()) {
            return Ok(());
        }
        let expected = format!("must be {height} * {width} * {channels}");
        Err(Error::option(op, "number of bytes", pixels.len(), expected))
    }
}

/// Converts `word` to a number in [0, 1): its upper 24 bits times 2^-24.
fn unit(word: u32) -> f64 {
    f64::from(word >> 8) * (1.0 / f64::from(1 << 24))
}

/// Maps `word` to a number from `low` to `high`.
fn between([low, high]: [f64; 2], word: u32) -> f64 {
    low + (high - low) * unit(word)
}

/// Checks that `range` is ascending and finite, and starts at `least` or above.
fn check_range(
    op: &'static str,
    option: &'static str,
    range: [f64; 2],
    least: f64,
) -> Result<[f64; 2]> {
    let [low, high] = range;
    if low >= least && low <= high && high.is_finite() && low.is_finite() {
        return Ok(range);
    }
    let from = if least.is_finite() { format!(", from {least} on") } else { String::new() };
    let expected = format!("must be two ascending, finite numbers{from}");
    Err(Error::option(op, option, format!("{low} to {high}"), expected))
}

/// Mirrors an image left to right, with a probability.
///
/// # Determinism
///
/// Takes one block of the generator. The image is mirrored if the first word, shifted right by 8
/// bits and multiplied by 2^-24, is below the probability.
///
/// # Examples
///
/// ```
/// use samebits_data::{Image, RandomHorizontalFlip};
/// use samebits_rng::Generator;
///
/// let image = Image { width: 3, height: 1, channels: 1, pixels: vec![1, 2, 3] };
/// let always = RandomHorizontalFlip::new(1.0)?;
/// assert_eq!(always.apply(image, &mut Generator::new(0))?.pixels, [3, 2, 1]);
/// # Ok::<(), samebits_data::Error>(())
/// ```
///
/// # References
///
/// `torchvision.transforms.RandomHorizontalFlip`.
#[derive(Clone, Copy, Debug)]
pub struct RandomHorizontalFlip {
    p: f64,
}

impl Default for RandomHorizontalFlip {
    /// Mirrors with probability 0.5.
    fn default() -> Self {
        RandomHorizontalFlip { p: 0.5 }
    }
}

impl RandomHorizontalFlip {
    /// Mirrors with probability `p`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] unless `p` is from 0 to 1.
    pub fn new(p: f64) -> Result<Self> {
        match (0.0..=1.0).contains(&p) {
            true => Ok(RandomHorizontalFlip { p }),
            false => Err(Error::option("random horizontal flip", "p", p, "must be from 0 to 1")),
        }
    }

    /// Mirrors the image, or returns it unchanged.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] if the number of bytes does not match the sizes.
    pub fn apply(&self, mut image: Image, generator: &mut Generator) -> Result<Image> {
        image.check("random horizontal flip")?;
        let [word, ..] = generator.next_block();
        if unit(word) < self.p && !image.pixels.is_empty() {
            let channels = image.channels;
            for row in image.pixels.chunks_exact_mut(image.width * channels) {
                row.reverse();
                row.chunks_exact_mut(channels).for_each(<[u8]>::reverse);
            }
        }
        Ok(image)
    }
}

/// Crops an image at a random position.
///
/// # Determinism
///
/// Takes one block of the generator. With the padded image *h* pixels high, the first row is the
/// upper half of the 128-bit product of *h* - `height` + 1 and the number formed by the block's
/// words 0 and 1, low word first; words 2 and 3 give the first column in the same way.
///
/// # Examples
///
/// ```
/// use samebits_data::{DatasetExt, Image, Memory, Normalize, RandomCrop, RandomHorizontalFlip};
///
/// let image = Image { width: 32, height: 32, channels: 3, pixels: vec![7; 3 * 32 * 32] };
/// let crop = RandomCrop::new(32, 32).padding(4);
/// let flip = RandomHorizontalFlip::default();
/// let normalize = Normalize::new(vec![0.5; 3], vec![0.25; 3])?;
/// let data = Memory::new(vec![image]).map(move |image, cx| {
///     let image = crop.apply(&image, cx.rng())?;
///     let image = flip.apply(image, cx.rng())?;
///     normalize.apply(&image)
/// });
/// # let _ = data;
/// # Ok::<(), samebits_data::Error>(())
/// ```
///
/// # References
///
/// `torchvision.transforms.RandomCrop`.
#[derive(Clone, Copy, Debug)]
pub struct RandomCrop {
    height: usize,
    width: usize,
    padding: usize,
}

impl RandomCrop {
    /// Creates a crop of `height` rows and `width` pixels per row.
    pub fn new(height: usize, width: usize) -> Self {
        RandomCrop { height, width, padding: 0 }
    }

    /// Pads the image with `pixels` zeros on each side before the crop; none by default.
    #[must_use]
    pub fn padding(self, pixels: usize) -> Self {
        RandomCrop { padding: pixels, ..self }
    }

    /// Returns the cropped part of the image.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] if the padded image is smaller than the crop, or the number of
    /// bytes does not match the sizes, and [`Error::OutOfMemory`].
    pub fn apply(&self, image: &Image, generator: &mut Generator) -> Result<Image> {
        const OP: &str = "random crop";
        image.check(OP)?;
        let RandomCrop { height, width, padding } = *self;
        let room = |size: usize, part: usize| {
            let padded = padding.checked_mul(2).and_then(|both| both.checked_add(size))?;
            padded.checked_sub(part)
        };
        let (Some(down), Some(right)) = (room(image.height, height), room(image.width, width))
        else {
            let expected = format!(
                "must fit into an image of {} x {} with a padding of {padding}",
                image.height, image.width
            );
            return Err(Error::option(OP, "size", format!("{height} x {width}"), expected));
        };
        let [a, b, c, d] = generator.next_block();
        let draw = |low: u32, high: u32, room: usize| {
            let word = u64::from(low) | u64::from(high) << 32;
            ((u128::from(word) * (room as u128 + 1)) >> 64) as usize
        };
        let (top, left) = (draw(a, b, down), draw(c, d, right));
        let channels = image.channels;
        let bytes = memory::product(&[height, width, channels]).unwrap_or(usize::MAX);
        let mut pixels = allocated(OP, memory::zeroed(bytes))?;
        // The columns of the crop that lie in the image, and their position there.
        let first = padding.saturating_sub(left).min(width);
        let from = left.saturating_sub(padding);
        let count = (width - first).min(image.width.saturating_sub(from));
        for row in 0..height {
            let Some(source) = (top + row).checked_sub(padding).filter(|&y| y < image.height)
            else {
                continue;
            };
            let source = &image.pixels[(source * image.width + from.min(image.width)) * channels..];
            let part = &mut pixels[(row * width + first) * channels..][..count * channels];
            part.copy_from_slice(&source[..count * channels]);
        }
        Ok(Image { width, height, channels, pixels })
    }
}

/// Scales the bytes of an image to numbers from 0 to 1, subtracts a mean and divides by a standard
/// deviation, per channel.
///
/// # Shapes
///
/// The result holds `channels * height * width` numbers, channel by channel, as convolution layers
/// expect.
///
/// # Determinism
///
/// Three operations in f32, each rounded: (*byte* / 255 - *mean*) / *std*, as in torchvision's
/// `ToTensor` and `Normalize`.
///
/// # Examples
///
/// ```
/// use samebits_data::{Image, Normalize};
///
/// let image = Image { width: 1, height: 2, channels: 2, pixels: vec![0, 255, 51, 0] };
/// let normalize = Normalize::new(vec![0.0, 0.5], vec![1.0, 0.5])?;
/// assert_eq!(normalize.apply(&image)?, [0.0, 0.2, 1.0, -1.0]);
/// # Ok::<(), samebits_data::Error>(())
/// ```
///
/// # References
///
/// `torchvision.transforms.ToTensor` and `torchvision.transforms.Normalize`.
#[derive(Clone, Debug)]
pub struct Normalize {
    mean: Vec<f32>,
    std: Vec<f32>,
}

impl Normalize {
    /// Normalises by these means and standard deviations, one of each per channel.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] if the numbers of means and deviations differ, or a deviation is 0.
    pub fn new(mean: Vec<f32>, std: Vec<f32>) -> Result<Self> {
        if mean.len() != std.len() {
            let expected = format!("must be the number of means, {}", mean.len());
            return Err(Error::option("normalize", "number of deviations", std.len(), expected));
        }
        if let Some(channel) = std.iter().position(|&std| std == 0.0) {
            let value = format!("0 in channel {channel}");
            return Err(Error::option("normalize", "std", value, "must not be 0"));
        }
        Ok(Normalize { mean, std })
    }

    /// Normalises an image.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] if the image has another number of channels, or the number of bytes
    /// does not match the sizes, and [`Error::OutOfMemory`].
    pub fn apply(&self, image: &Image) -> Result<Vec<f32>> {
        image.check("normalize")?;
        let channels = image.channels;
        if channels != self.mean.len() {
            let expected = format!("must be the number of means, {}", self.mean.len());
            return Err(Error::option("normalize", "number of channels", channels, expected));
        }
        let mut out = allocated("normalize", memory::with_capacity(image.pixels.len()))?;
        for (channel, (mean, std)) in self.mean.iter().zip(&self.std).enumerate() {
            let bytes = image.pixels.iter().skip(channel).step_by(channels);
            out.extend(bytes.map(|&byte| (f32::from(byte) / 255.0 - mean) / std));
        }
        Ok(out)
    }
}
