//! Brightness, contrast, saturation and hue.

use samebits_rng::Generator;

use super::{Image, between, check_range};
use crate::{Error, Result};

/// Changes brightness, contrast, saturation and hue of an image by random factors, in random order.
///
/// # Determinism
///
/// Takes two blocks of the generator. The words of the first give the factors in this order, each
/// drawn as in [`RandomAffine`](super::RandomAffine). The words *z* of the second choose the order:
/// of brightness, contrast and saturation, change number 3 *z*, rounded down, comes first, and
/// number 2 *z* of the other two comes next; hue comes after 4 *z* of the three.
///
/// For the first three, a byte *p* becomes *f* *p* + (1 - *f*) *q* with the factor *f*, computed in
/// f64, clamped to 0 to 255 and rounded down. *q* is 0 for brightness, the mean of the grey bytes
/// for contrast, and the grey byte of the pixel for saturation, where grey is 0.2989 *r* + 0.587
/// *g* + 0.114 *b* rounded down. In an image of one channel, the byte itself is the grey.
///
/// Hue is changed as in torchvision, in f32 with each operation rounded: bytes over 255 become hue,
/// saturation and value, the factor is added to the hue modulo 1, and the way back multiplies by
/// 255.999 and rounds down. An image of one channel has no hue.
///
/// # Examples
///
/// ```
/// use samebits_data::{ColorJitter, Image};
/// use samebits_rng::Generator;
///
/// let image = Image { width: 1, height: 1, channels: 3, pixels: vec![10, 20, 30] };
/// let jitter = ColorJitter::new(0.4, 0.4, 0.4)?.hue(0.1)?;
/// let changed = jitter.apply(image.clone(), &mut Generator::new(1))?;
/// assert_ne!(changed, image);
/// # Ok::<(), samebits_data::Error>(())
/// ```
///
/// # References
///
/// `torchvision.transforms.ColorJitter`.
#[derive(Clone, Copy, Debug)]
pub struct ColorJitter {
    /// Ranges of the factors: brightness, contrast, saturation, hue.
    factors: [[f64; 2]; 4],
}

const OP: &str = "color jitter";
/// Index of hue among the factors.
const HUE: usize = 3;

impl ColorJitter {
    /// Draws each factor from 1 - *x* to 1 + *x*, but not below 0, and keeps the hue.
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
            [0.0; 2],
        ];
        Ok(ColorJitter { factors })
    }

    /// Shifts the hue too, by up to `most` of the full circle in both directions.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] unless `most` is from 0 to 0.5.
    pub fn hue(mut self, most: f64) -> Result<Self> {
        if !(0.0..=0.5).contains(&most) {
            return Err(Error::option(OP, "hue", most, "must be from 0 to 0.5"));
        }
        self.factors[HUE] = [-most, most];
        Ok(self)
    }

    /// Returns the changed image.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] unless the image has one or three channels, and the number of bytes
    /// matches the sizes.
    pub fn apply(&self, mut image: Image, generator: &mut Generator) -> Result<Image> {
        image.check(OP)?;
        if !matches!(image.channels, 1 | 3) {
            return Err(Error::option(OP, "number of channels", image.channels, "must be 1 or 3"));
        }
        let words = generator.next_block();
        let [first, next, place, _] = generator.next_block();
        let number = |of: usize, word| between([0.0, of as f64], word) as usize;
        let mut left = vec![0, 1, 2];
        let mut order = vec![left.remove(number(3, first)), left.remove(number(2, next)), left[0]];
        order.insert(number(4, place), HUE);
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
                2 => blend(&mut image, factor, |pixel| f64::from(grey(pixel))),
                _ if factor == 0.0 => {}
                _ => turn(&mut image, factor as f32),
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

/// Blends each byte with `other` of its pixel.
fn blend(image: &mut Image, factor: f64, other: impl Fn(&[u8]) -> f64) {
    for pixel in image.pixels.chunks_exact_mut(image.channels) {
        let rest = (1.0 - factor) * other(pixel);
        for byte in pixel {
            // The cast clamps to 0 to 255.
            *byte = (factor * f64::from(*byte) + rest) as u8;
        }
    }
}

/// Shifts the hue of each pixel by `part` of the circle. Pixels of one byte have no hue.
fn turn(image: &mut Image, part: f32) {
    for pixel in image.pixels.chunks_exact_mut(image.channels) {
        let [r, g, b] = *pixel else { return };
        let [hue, saturation, value] = hue_of([r, g, b].map(|byte| f32::from(byte) / 255.0));
        let turned = (hue + part) % 1.0;
        let hue = if turned < 0.0 { turned + 1.0 } else { turned };
        for (byte, level) in pixel.iter_mut().zip(color_of([hue, saturation, value])) {
            *byte = (level * 255.999) as u8;
        }
    }
}

/// Converts red, green and blue to hue, saturation and value.
fn hue_of([r, g, b]: [f32; 3]) -> [f32; 3] {
    let (most, least) = (r.max(g).max(b), r.min(g).min(b));
    if most == least {
        return [0.0, 0.0, most];
    }
    let range = most - least;
    let [from_r, from_g, from_b] = [r, g, b].map(|level| (most - level) / range);
    let hue = if most == r {
        from_b - from_g
    } else if most == g {
        2.0 + from_r - from_b
    } else {
        4.0 + from_g - from_r
    };
    [(hue / 6.0 + 1.0) % 1.0, range / most, most]
}

/// Converts hue, saturation and value to red, green and blue.
fn color_of([hue, saturation, value]: [f32; 3]) -> [f32; 3] {
    let sector = (hue * 6.0).floor();
    let rest = hue * 6.0 - sector;
    let low = value * (1.0 - saturation);
    let falling = value * (1.0 - saturation * rest);
    let rising = value * (1.0 - saturation * (1.0 - rest));
    match sector as u8 % 6 {
        0 => [value, rising, low],
        1 => [falling, value, low],
        2 => [low, value, rising],
        3 => [low, falling, value],
        4 => [rising, low, value],
        _ => [value, low, falling],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of the steps of torchvision's `adjust_hue` with PyTorch 2.11: some pixels, and
    /// digests of all pixels whose levels are multiples of 5.
    #[test]
    fn hue_gives_the_figures_of_torchvision() {
        let turned = |pixels: Vec<u8>, part| {
            let mut image = Image { width: pixels.len() / 3, height: 1, channels: 3, pixels };
            turn(&mut image, part);
            image.pixels
        };
        let pixels = [200, 100, 50, 7, 250, 9, 128, 128, 127, 255, 0, 255, 12, 200, 201];
        for (part, expected) in [
            (-0.3, [130, 50, 200, 250, 57, 7, 128, 127, 128, 0, 204, 255, 162, 201, 12]),
            (0.1, [200, 190, 50, 7, 250, 155, 127, 128, 127, 255, 0, 102, 12, 86, 201]),
            (0.25, [75, 200, 50, 7, 126, 250, 127, 128, 127, 255, 127, 0, 107, 12, 201]),
        ] {
            assert_eq!(turned(pixels.to_vec(), part), expected, "{part}");
        }
        let levels = || (0..=255).step_by(5);
        let all: Vec<u8> = levels()
            .flat_map(|r| levels().flat_map(move |g| levels().flat_map(move |b| [r, g, b])))
            .collect();
        for (part, expected) in [
            (-0.37, 0xd64a_aa5b_4f63_9532),
            (0.0, 0xaad9_a93f_bbb1_3135),
            (0.123, 0xc27e_69ed_4f66_32cf),
            (0.5, 0xb04e_41fb_0922_4abd_u64),
        ] {
            let digest =
                turned(all.clone(), part).into_iter().fold(0xcbf2_9ce4_8422_2325, |d, b| {
                    (d ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
                });
            assert_eq!(digest, expected, "{part}");
        }
    }
}
