//! Handwritten digits: reading, splitting, augmenting.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use samebits::Generator;
use samebits::Tensor;
use samebits::data::{CsvOptions, Dataset, DatasetExt, SampleContext, Subset, Table};

/// Side length of the square images, in pixels.
pub(crate) const SIDE: usize = 8;
/// Number of classes, the digits 0 to 9.
pub(crate) const CLASSES: usize = 10;

const PIXELS: usize = SIDE * SIDE;
/// Test share: one image in this many is kept for testing.
const TEST_SHARE: usize = 5;

/// Digits, with a split that depends on their number alone.
#[derive(Debug)]
pub(crate) struct Digits {
    pub(crate) train: Augmented,
    pub(crate) test_images: Tensor,
    pub(crate) test_classes: Vec<i64>,
}

impl Digits {
    /// Reads `file`, or the copy inside the program.
    pub(crate) fn load(file: Option<&Path>) -> Result<Digits> {
        let options = CsvOptions::new().columns(PIXELS + 1).labels(0, CLASSES as i64 - 1);
        let table = match file {
            Some(path) => options.read(path)?,
            None => options.parse("digits.csv.gz", include_bytes!("../data/digits.csv.gz"))?,
        };
        let test = table.len() / TEST_SHARE;
        ensure!(test > 0, "too few images: {}, at least {TEST_SHARE} are needed", table.len());
        // The split does not depend on the run's seed, so accuracies of different seeds use the
        // same test set.
        let lengths = [table.len() - test, test];
        let parts = table.split(&lengths, &Generator::new(0))?;
        let [train, test]: [Subset<Table>; 2] =
            parts.try_into().ok().context("asked for two parts")?;
        let table = test.inner();
        let mut pixels = Vec::with_capacity(test.len() * PIXELS);
        let mut test_classes = Vec::with_capacity(test.len());
        for &row in test.indices() {
            let image = table.row(row).context("a subset's indices lie in its dataset")?;
            pixels.extend(image.iter().map(|&value| scale(value)));
            test_classes.push(table.labels()[row]);
        }
        let test_images = Tensor::from_slice(&pixels, &[test.indices().len(), 1, SIDE, SIDE])?;
        let digest = digest(table)?.into();
        Ok(Digits {
            train: Augmented { train: Arc::new(train), digest },
            test_images,
            test_classes,
        })
    }
}

/// Returns a digest of all images and classes.
fn digest(table: &Table) -> Result<String> {
    let images: Vec<f32> =
        (0..table.len()).filter_map(|row| table.row(row)).flatten().copied().collect();
    let images = Tensor::from_slice(&images, &[table.len(), PIXELS])?;
    let classes = Tensor::from_slice(table.labels(), &[table.len()])?;
    Ok(samebits::digest([("images", &images), ("classes", &classes)])?)
}

/// Training images, each shifted by up to one pixel in each direction by its own generator.
#[derive(Clone, Debug)]
pub(crate) struct Augmented {
    train: Arc<Subset<Table>>,
    /// Digest of the whole file.
    digest: Arc<str>,
}

impl Dataset for Augmented {
    type Item = (Vec<f32>, i64);

    fn len(&self) -> usize {
        self.train.len()
    }

    /// Returns the identity of the images; a resume or a rank with other images is an error.
    fn describe(&self) -> String {
        format!("{} images of the digits {}", self.len(), &self.digest[..16])
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> samebits::data::Result<Self::Item> {
        let (image, class) = self.train.get(index, cx)?;
        let [right, down, ..] = cx.rng().next_block();
        // Three equally likely values, up to a bias of 2^-32.
        let shift = |word: u32| ((u64::from(word) * 3) >> 32) as usize;
        Ok((shifted(&image, shift(right), shift(down)), class))
    }
}

/// Moves the image right by `right - 1` and down by `down - 1` pixels, with empty borders.
fn shifted(image: &[f32], right: usize, down: usize) -> Vec<f32> {
    let mut out = vec![0.0; PIXELS];
    for y in 0..SIDE {
        for x in 0..SIDE {
            let from = (y + 1).checked_sub(down).zip((x + 1).checked_sub(right));
            if let Some((from_y, from_x)) = from.filter(|&(y, x)| y < SIDE && x < SIDE) {
                out[y * SIDE + x] = scale(image[from_y * SIDE + from_x]);
            }
        }
    }
    out
}

/// Scales pixels from 0 to 16 to 0 to 1; dividing by a power of two is exact.
fn scale(pixel: f32) -> f32 {
    pixel / 16.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifting_by_nothing_only_scales_and_borders_come_in_empty() {
        let image: Vec<f32> = (0..PIXELS).map(|i| i as f32).collect();
        assert_eq!(shifted(&image, 1, 1)[9], 9.0 / 16.0);
        let moved = shifted(&image, 2, 0);
        assert_eq!(moved[0], 0.0);
        assert_eq!(moved[1], 8.0 / 16.0);
        assert_eq!(moved[PIXELS - 1], 0.0);
    }

    #[test]
    fn the_shipped_file_has_every_image() {
        let digits = Digits::load(None).unwrap();
        assert_eq!((digits.train.len(), digits.test_classes.len()), (1438, 359));
        assert_eq!(digits.test_images.shape(), [359, 1, 8, 8]);
    }
}
