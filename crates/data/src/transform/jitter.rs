//! Brightness, contrast and saturation.

use samebits_rng::Generator;

use super::{Image, between, check_range};
use crate::{Error, Result};

/// Changes brightness, contrast and saturation of an image by random factors, in random order.
///
/// # Determinism
///
/// Takes two blocks of the generator. The first three words of the first give the factors in this
/// order, each as [`RandomAffine`](super::RandomAffine) draws its numbers. The first two words of the second choose the
/// order: the change that comes first is number 3 *z* of the three, rounded down, and the next number
/// 2 *z* of the other two.
///
/// A byte *p* becomes *f* *p* + (1 - *f*) *q* with the factor *f*, computed in f64, cut to 0 to 255 and
/// rounded down. *q* is 0 for brightness, the mean of the grey bytes for contrast, and the grey byte
/// of the pixel for saturation, where grey is 0.2989 *r* + 0.587 *g* + 0.114 *b* rounded down. An
/// image of one channel is its own grey.
///
/// # Examples
///
/// ```
/// use samebits_data::{ColorJitter, Image};
/// use samebits_rng::Generator;
///
/// let image = Image { width: 1, height: 1, channels: 3, pixels: vec![10, 20, 30] };
/// let jitter = ColorJitter::new(0.4, 0.4, 0.4)?;
/// let changed = jitter.apply(image.clone(), &mut Generator::new(1))?;
/// assert_ne!(changed, image);
/// # Ok::<(), samebits_data::Error>(())
/// ```
///
/// # References
///
/// `torchvision.transforms.ColorJitter`, without hue.
#[derive(Clone, Copy, Debug)]
pub struct ColorJitter {
    /// Factors of brightness, contrast and saturation.
    factors: [[f64; 2]; 3],
}

const OP: &str = "color jitter";

impl ColorJitter {
    /// Draws each factor from 1 - *x* to 1 + *x*, but not below 0.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] unless the numbers are finite and not negative.
    pub fn new(brightness: f64, contrast: f64, saturation: f64) -> Result<Self> {
        let range = |option, x: f64| match x >= 0.0 {
            true => check_range(OP, option, [(1.0 - x).max(0.0), 1.0 + x], 0.0),
            false => Err(Error::option(OP, option, x, "must not be negative")),
        };
        let factors = [
            range("brightness", brightness)?,
            range("contrast", contrast)?,
            range("saturation", saturation)?,
        ];
        Ok(ColorJitter { factors })
    }

    /// The changed image.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] unless the image has one channel or three, and as many bytes as its
    /// sizes say.
    pub fn apply(&self, mut image: Image, generator: &mut Generator) -> Result<Image> {
        image.check(OP)?;
        if !matches!(image.channels, 1 | 3) {
            return Err(Error::option(OP, "number of channels", image.channels, "must be 1 or 3"));
        }
        let words = generator.next_block();
        let [first, next, ..] = generator.next_block();
        let mut left = vec![0, 1, 2];
        let mut order = [0; 3];
        for (place, word) in [first, next, 0].into_iter().enumerate() {
            order[place] = left.remove(between([0.0, left.len() as f64], word) as usize);
        }
        for change in order {
            let factor = between(self.factors[change], words[change]);
            match change {
                0 => blend(&mut image, factor, |_| 0.0),
                1 => {
                    let sum: u64 =
                        image.pixels.chunks_exact(image.channels).map(|p| u64::from(grey(p))).sum();
                    let mean = sum as f64 / (image.width * image.height).max(1) as f64;
                    blend(&mut image, factor, |_| mean);
                }
                _ => blend(&mut image, factor, |pixel| f64::from(grey(pixel))),
            }
        }
        Ok(image)
    }
}

fn grey(pixel: &[u8]) -> u8 {
    match *pixel {
        [r, g, b] => (0.2989 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b)) as u8,
        [grey, ..] => grey,
        [] => 0,
    }
}

/// Moves each byte away from what `other` says of its pixel, or towards it.
fn blend(image: &mut Image, factor: f64, other: impl Fn(&[u8]) -> f64) {
    for pixel in image.pixels.chunks_exact_mut(image.channels) {
        let rest = (1.0 - factor) * other(pixel);
        for byte in pixel {
            // The cast cuts to 0 to 255.
            *byte = (factor * f64::from(*byte) + rest) as u8;
        }
    }
}
