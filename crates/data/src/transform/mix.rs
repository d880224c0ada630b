//! Mixing the samples of a batch.

use samebits_numerics::memory;
use samebits_rng::Generator;

use crate::memory::allocated;
use crate::{Collate, Error, Result, Stackable, Stacked};

/// Collate function that stacks samples of numbers and a class, and mixes each sample with the
/// previous one: *part* of itself and the rest of the other. Classes become probabilities.
///
/// # Shapes
///
/// All samples hold as many numbers as the first. The first matrix of the batch holds the numbers,
/// the second one probability per class.
///
/// # Determinism
///
/// Takes one block of the batch's generator: *part* is a beta variate with shapes *alpha* and
/// *alpha*. A number *x* becomes *x* *part* + *y* (1 - *part*), where *y* belongs to the other
/// sample; both factors are f32, and each operation is rounded. The last sample precedes the first.
///
/// # Examples
///
/// ```
/// use samebits_data::{DataLoader, Memory, MixUp};
///
/// let data = Memory::new(vec![(vec![0.0_f32], 0_i64), (vec![1.0], 1)]);
/// let mixing = MixUp::new(0.2, 2)?;
/// let loader = DataLoader::builder_with(data, mixing).batch_size(2).build()?;
/// let (x, classes) = loader.epoch(0).next().unwrap()?.data;
/// assert_eq!(x.values[0], classes.row(0).unwrap()[1]);
/// # Ok::<(), samebits_data::Error>(())
/// ```
///
/// # References
///
/// H. Zhang and others, *mixup: Beyond Empirical Risk Minimization*, 2018;
/// `torchvision.transforms.v2.MixUp`.
#[derive(Clone, Copy, Debug)]
pub struct MixUp {
    alpha: f32,
    classes: usize,
}

/// Collate function that stacks images and classes, and replaces a rectangle of each image with
/// that of the previous image. Classes become probabilities, by area.
///
/// # Shapes
///
/// Samples hold `channels * height * width` numbers, channel by channel. The first matrix of the
/// batch holds the numbers, the second one probability per class.
///
/// # Determinism
///
/// Takes three blocks of the batch's generator: a beta variate *part* with shapes *alpha* and
/// *alpha*, then the column and the row of the rectangle's centre. The rectangle extends sqrt(1 -
/// *part*) / 2 of the width and of the height to both sides, computed in f64, rounded down to
/// pixels and clipped to the image. The probability of the image's own class is 1 - *area of the
/// rectangle* / *area of the image*, in f64.
///
/// # References
///
/// S. Yun and others, *CutMix: Regularization Strategy to Train Strong Classifiers with Localizable
/// Features*, 2019; `torchvision.transforms.v2.CutMix`.
#[derive(Clone, Copy, Debug)]
pub struct CutMix {
    alpha: f32,
    classes: usize,
    height: usize,
    width: usize,
}

type Sample = (Vec<f32>, i64);

impl MixUp {
    /// Creates a mixer with beta variates of shapes `alpha` and `alpha`; classes are below
    /// `classes`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] unless `alpha` is positive and finite.
    pub fn new(alpha: f32, classes: usize) -> Result<Self> {
        Ok(MixUp { alpha: check_alpha("mixup", alpha)?, classes })
    }
}

impl CutMix {
    /// Creates a mixer as [`MixUp::new`] does, for images of `height` rows and `width` columns.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] unless `alpha` is positive and finite and the sizes are not 0.
    pub fn new(alpha: f32, classes: usize, height: usize, width: usize) -> Result<Self> {
        let alpha = check_alpha("cutmix", alpha)?;
        if memory::product(&[height, width]).is_none_or(|area| area == 0) {
            let value = format!("{height} x {width}");
            return Err(Error::option("cutmix", "size", value, "must have pixels"));
        }
        Ok(CutMix { alpha, classes, height, width })
    }
}

fn check_alpha(op: &'static str, alpha: f32) -> Result<f32> {
    match alpha > 0.0 && alpha.is_finite() {
        true => Ok(alpha),
        false => Err(Error::option(op, "alpha", alpha, "must be positive and finite")),
    }
}

impl Collate<Sample> for MixUp {
    type Batch = (Stacked<f32>, Stacked<f32>);

    fn collate(&self, samples: Vec<Sample>, rng: &mut Generator) -> Result<Self::Batch> {
        let (mut images, classes) = Stackable::stack(samples)?;
        let part = f64::from(rng.beta(self.alpha, self.alpha)?);
        let classes = probabilities("mixup", &classes, self.classes, part)?;
        let (own, others) = (part as f32, (1.0 - part) as f32);
        with_before("mixup", &mut images, |_, x, y| x * own + y * others)?;
        Ok((images, classes))
    }
}

impl Collate<Sample> for CutMix {
    type Batch = (Stacked<f32>, Stacked<f32>);

    fn collate(&self, samples: Vec<Sample>, rng: &mut Generator) -> Result<Self::Batch> {
        const OP: &str = "cutmix";
        let (mut images, classes) = Stackable::stack(samples)?;
        let (height, width) = (self.height, self.width);
        let area = height * width;
        if images.columns % area != 0 {
            let expected = format!("must be channels of {height} x {width}");
            return Err(Error::option(OP, "values of a sample", images.columns, expected));
        }
        let part = f64::from(rng.beta(self.alpha, self.alpha)?);
        let reach = 0.5 * (1.0 - part).sqrt();
        let mut range = |size: usize| -> Result<_> {
            let centre = rng.below(size as u64)? as usize;
            let reach = (reach * size as f64) as usize;
            Ok(centre.saturating_sub(reach)..(centre + reach).min(size))
        };
        let (columns, rows) = (range(width)?, range(height)?);
        let cut = columns.len() * rows.len();
        let part = 1.0 - cut as f64 / area as f64;
        let classes = probabilities(OP, &classes, self.classes, part)?;
        with_before(OP, &mut images, |place, x, y| {
            let (row, column) = (place % area / width, place % width);
            if rows.contains(&row) && columns.contains(&column) { y } else { x }
        })?;
        Ok((images, classes))
    }
}

/// Replaces each element by a function of its position in its row, its value, and the element of
/// the previous row; the last row precedes the first.
fn with_before(
    op: &'static str,
    rows: &mut Stacked<f32>,
    f: impl Fn(usize, f32, f32) -> f32,
) -> Result<()> {
    let width = rows.columns;
    if rows.values.is_empty() {
        return Ok(());
    }
    // From the last row to the first, so that the previous row is still unchanged.
    let last = rows.values.len() - width;
    let last = allocated(op, memory::collected(rows.values[last..].iter().copied()))?;
    for row in (0..rows.rows).rev() {
        let (before, own) = rows.values.split_at_mut(row * width);
        let before = if row == 0 { &last[..] } else { &before[(row - 1) * width..] };
        for (place, (x, &y)) in own[..width].iter_mut().zip(before).enumerate() {
            *x = f(place, *x, y);
        }
    }
    Ok(())
}

/// Computes the class probabilities: for each sample, `part` for its own class and the rest for the
/// class of the previous sample.
fn probabilities(
    op: &'static str,
    classes: &[i64],
    count: usize,
    part: f64,
) -> Result<Stacked<f32>> {
    let bytes = memory::product(&[classes.len(), count]).unwrap_or(usize::MAX);
    let mut values: Vec<f32> = allocated(op, memory::zeroed(bytes))?;
    let (own, others) = (part as f32, (1.0 - part) as f32);
    for (row, &class) in classes.iter().enumerate() {
        let before = classes[row.checked_sub(1).unwrap_or(classes.len() - 1)];
        for (class, part) in [(class, own), (before, others)] {
            let place = usize::try_from(class).ok().filter(|&class| class < count);
            let Some(place) = place else {
                return Err(Error::option(op, "class", class, format!("must be below {count}")));
            };
            values[row * count + place] += part;
        }
    }
    Ok(Stacked { values, rows: classes.len(), columns: count })
}
