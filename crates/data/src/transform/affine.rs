//! Rotation, translation, scaling and shear.

use samebits_numerics::{math, memory};
use samebits_rng::Generator;

use super::{Image, between, check_range};
use crate::memory::allocated;
use crate::{Error, Result};

/// Interpolation between pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interpolation {
    /// The nearest pixel; of two equally near, the one in the even row or column.
    #[default]
    Nearest,
    /// The four surrounding pixels, weighted by distance.
    Bilinear,
}

/// Rotates, shears, scales and moves an image about its centre. The image size stays the same.
///
/// # Determinism
///
/// Sines and cosines are `samebits_numerics::math::f64::sinpi` and `cospi` of the angle / 180, so
/// quarter turns are exact. With *r* the angle and *u*, *v* the shears, the matrix has *a* =
/// cos(*r* - *v*) / cos *v*, *b* = -*a* tan *u* - sin *r*, *c* = sin(*r* - *v*) / cos *v* and *d* =
/// -*c* tan *u* + cos *r*. The pixel at (*x*, *y*), counted from the centre, comes from (*d* *p* -
/// *b* *q*, *a* *q* - *c* *p*) / *scale* with *p* = *x* - *t*\[0\] and *q* = *y* - *t*\[1\], each
/// operation rounded to f64. Bilinear values interpolate rows, then columns, and are rounded to the
/// nearest byte, ties to even.
///
/// # Examples
///
/// ```
/// use samebits_data::{Affine, Image};
///
/// let image = Image { width: 2, height: 2, channels: 1, pixels: vec![1, 2, 3, 4] };
/// let turned = Affine { angle: 90.0, ..Affine::default() }.apply(&image)?;
/// assert_eq!(turned.pixels, [3, 1, 4, 2]);
/// # Ok::<(), samebits_data::Error>(())
/// ```
///
/// # References
///
/// `torchvision.transforms.functional.affine`. With `fill`, torchvision weighs interpolated border
/// pixels twice by their part inside the image; here, pixels outside count as `fill`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Affine {
    /// Rotation clockwise, in degrees.
    pub angle: f64,
    /// Translation to the right and down, in pixels.
    pub translate: [f64; 2],
    /// Scale factor of the content.
    pub scale: f64,
    /// Shear of columns and rows, in degrees.
    pub shear: [f64; 2],
    /// Interpolation between pixels.
    pub interpolation: Interpolation,
    /// The byte outside the image.
    pub fill: u8,
}

impl Default for Affine {
    /// Returns the identity.
    fn default() -> Self {
        let interpolation = Interpolation::default();
        Affine {
            angle: 0.0,
            translate: [0.0; 2],
            scale: 1.0,
            shear: [0.0; 2],
            interpolation,
            fill: 0,
        }
    }
}

const OP: &str = "affine";

/// Returns sine and cosine of an angle in degrees.
fn sin_cos(degrees: f64) -> [f64; 2] {
    let half_turns = degrees / 180.0;
    [math::f64::sinpi(half_turns), math::f64::cospi(half_turns)]
}

impl Affine {
    /// Returns the transformed image.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] if a number is not finite, the scale is not positive, a shear is a
    /// quarter turn, or the number of bytes does not match the sizes, and [`Error::OutOfMemory`].
    pub fn apply(&self, image: &Image) -> Result<Image> {
        image.check(OP)?;
        let from = self.inverse()?;
        let Image { width, height, channels, ref pixels } = *image;
        let mut out = allocated(OP, memory::with_capacity(pixels.len()))?;
        let centre = [(width as f64 - 1.0) * 0.5, (height as f64 - 1.0) * 0.5];
        for row in 0..height {
            for column in 0..width {
                let place = [column as f64 - centre[0], row as f64 - centre[1]];
                let [x, y] = from(place);
                let (x, y) = (x + centre[0], y + centre[1]);
                for channel in 0..channels {
                    out.push(self.sample(image, x, y, channel));
                }
            }
        }
        Ok(Image { width, height, channels, pixels: out })
    }

    /// Returns the map from output to input coordinates, both counted from the centre.
    fn inverse(&self) -> Result<impl Fn([f64; 2]) -> [f64; 2]> {
        let Affine { angle, translate: [right, down], scale, shear: [u, v], .. } = *self;
        let fail =
            |option, value: f64, expected: &str| Err(Error::option(OP, option, value, expected));
        for (option, value) in [
            ("angle", angle),
            ("translation", right),
            ("translation", down),
            ("shear", u),
            ("shear", v),
        ] {
            if !value.is_finite() {
                return fail(option, value, "must be finite");
            }
        }
        if !(scale > 0.0 && scale.is_finite()) {
            return fail("scale", scale, "must be positive and finite");
        }
        let ([sin, cos], [sin_u, cos_u], [_, cos_v]) = (sin_cos(angle), sin_cos(u), sin_cos(v));
        let [sin_turn, cos_turn] = sin_cos(angle - v);
        for (value, cos) in [(u, cos_u), (v, cos_v)] {
            if cos == 0.0 {
                return fail("shear", value, "must not be a quarter turn");
            }
        }
        let tan = sin_u / cos_u;
        let (a, c) = (cos_turn / cos_v, sin_turn / cos_v);
        let (b, d) = (-a * tan - sin, -c * tan + cos);
        Ok(move |[x, y]: [f64; 2]| {
            let (p, q) = (x - right, y - down);
            [(d * p - b * q) / scale, (a * q - c * p) / scale]
        })
    }

    /// Returns the value of a channel at a position that may lie between pixels or outside.
    fn sample(&self, image: &Image, x: f64, y: f64, channel: usize) -> u8 {
        let at = |x: f64, y: f64| {
            let inside = x >= 0.0 && y >= 0.0 && x < image.width as f64 && y < image.height as f64;
            match inside {
                true => {
                    let pixel = y as usize * image.width + x as usize;
                    image.pixels[pixel * image.channels + channel]
                }
                false => self.fill,
            }
        };
        match self.interpolation {
            Interpolation::Nearest => at(x.round_ties_even(), y.round_ties_even()),
            Interpolation::Bilinear => {
                let (left, top) = (x.floor(), y.floor());
                let (right, down) = (x - left, y - top);
                let row = |y: f64| {
                    f64::from(at(left, y)) * (1.0 - right) + f64::from(at(left + 1.0, y)) * right
                };
                (row(top) * (1.0 - down) + row(top + 1.0) * down).round_ties_even() as u8
            }
        }
    }
}

/// Rotates, moves, scales and shears an image by random amounts.
///
/// # Determinism
///
/// Takes two blocks of the generator. With *z* the upper 24 bits of a word times 2^-24, a number
/// from *low* to *high* is *low* + (*high* - *low*) *z*. The words of the first block give the
/// angle, the translations to the right and down, rounded to whole pixels with ties to even, and
/// the scale; the first two words of the second give the shears. The numbers then apply as in
/// [`Affine`].
///
/// # Examples
///
/// ```
/// use samebits_data::{Image, Interpolation, RandomAffine};
/// use samebits_rng::Generator;
///
/// let image = Image { width: 8, height: 8, channels: 3, pixels: vec![9; 192] };
/// let affine = RandomAffine::new(15.0)?
///     .translate(0.1, 0.1)?
///     .scale(0.9, 1.1)?
///     .shear([-5.0, 5.0], [0.0, 0.0])?
///     .interpolation(Interpolation::Bilinear)
///     .fill(9);
/// assert_eq!(affine.apply(&image, &mut Generator::new(0))?, image);
/// # Ok::<(), samebits_data::Error>(())
/// ```
///
/// # References
///
/// `torchvision.transforms.RandomAffine`.
#[derive(Clone, Copy, Debug)]
pub struct RandomAffine {
    degrees: [f64; 2],
    translate: [f64; 2],
    scale: [f64; 2],
    shear: [[f64; 2]; 2],
    interpolation: Interpolation,
    fill: u8,
}

const RANDOM: &str = "random affine";

impl RandomAffine {
    /// Rotates by up to `degrees` in either direction.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] unless `degrees` is finite and not negative.
    pub fn new(degrees: f64) -> Result<Self> {
        let degrees = check_range(RANDOM, "degrees", [-degrees, degrees], f64::NEG_INFINITY)?;
        let none = [0.0; 2];
        let interpolation = Interpolation::default();
        let shear = [none; 2];
        Ok(RandomAffine {
            degrees,
            translate: none,
            scale: [1.0; 2],
            shear,
            interpolation,
            fill: 0,
        })
    }

    /// Moves by up to these fractions of the width and the height, in either direction.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] unless both are from 0 to 1.
    pub fn translate(self, horizontal: f64, vertical: f64) -> Result<Self> {
        for part in [horizontal, vertical] {
            if !(0.0..=1.0).contains(&part) {
                return Err(Error::option(RANDOM, "translation", part, "must be from 0 to 1"));
            }
        }
        Ok(RandomAffine { translate: [horizontal, vertical], ..self })
    }

    /// Scales by a factor from `smallest` to `largest`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] unless they are positive, finite and ascending.
    pub fn scale(self, smallest: f64, largest: f64) -> Result<Self> {
        let scale = check_range(RANDOM, "scale", [smallest, largest], f64::MIN_POSITIVE)?;
        Ok(RandomAffine { scale, ..self })
    }

    /// Shears by degrees in these ranges, first along the rows, then along the columns.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] unless the ranges are finite and ascending.
    pub fn shear(self, x: [f64; 2], y: [f64; 2]) -> Result<Self> {
        let least = f64::NEG_INFINITY;
        let shear =
            [check_range(RANDOM, "shear", x, least)?, check_range(RANDOM, "shear", y, least)?];
        Ok(RandomAffine { shear, ..self })
    }

    /// Sets the interpolation between pixels; the nearest pixel by default.
    #[must_use]
    pub fn interpolation(self, interpolation: Interpolation) -> Self {
        RandomAffine { interpolation, ..self }
    }

    /// Sets the byte outside the image; 0 by default.
    #[must_use]
    pub fn fill(self, fill: u8) -> Self {
        RandomAffine { fill, ..self }
    }

    /// Draws the transform for an image of this size.
    pub fn draw(&self, height: usize, width: usize, generator: &mut Generator) -> Affine {
        let [angle, right, down, scale] = generator.next_block();
        let [u, v, ..] = generator.next_block();
        let moved = |part: f64, size: usize, word| {
            let most = part * size as f64;
            between([-most, most], word).round_ties_even()
        };
        Affine {
            angle: between(self.degrees, angle),
            translate: [
                moved(self.translate[0], width, right),
                moved(self.translate[1], height, down),
            ],
            scale: between(self.scale, scale),
            shear: [between(self.shear[0], u), between(self.shear[1], v)],
            interpolation: self.interpolation,
            fill: self.fill,
        }
    }

    /// Returns the transformed image.
    ///
    /// # Errors
    ///
    /// The errors of [`Affine::apply`].
    pub fn apply(&self, image: &Image, generator: &mut Generator) -> Result<Image> {
        self.draw(image.height, image.width, generator).apply(image)
    }
}
