//! Transforms of images: against plain definitions, and the same for any number of workers.

use samebits_data::{
    DataLoader, DatasetExt, Error, Image, Memory, Normalize, RandomCrop, RandomHorizontalFlip,
    Result,
};
use samebits_rng::Generator;

fn image(height: usize, width: usize, channels: usize) -> Image {
    let pixels = (0..height * width * channels).map(|i| (7 * i + 1) as u8).collect();
    Image { width, height, channels, pixels }
}

/// The byte at row `y` and column `x`, which may lie outside.
fn at(image: &Image, y: isize, x: isize, channel: usize) -> u8 {
    let inside = (0..image.height as isize).contains(&y) && (0..image.width as isize).contains(&x);
    let place = (y * image.width as isize + x) * image.channels as isize + channel as isize;
    if inside { image.pixels[place as usize] } else { 0 }
}

#[test]
fn crops_are_their_definition() {
    let mut places = std::collections::BTreeSet::new();
    for (height, width, channels) in [(5, 4, 3), (1, 1, 1), (2, 7, 1), (0, 3, 2)] {
        let source = image(height, width, channels);
        for padding in [0, 1, 4, 9] {
            for (rows, columns) in [(1, 1), (2, 3), (5, 4), (8, 8), (0, 2)] {
                let (tall, wide) = (height + 2 * padding, width + 2 * padding);
                let crop = RandomCrop::new(rows, columns).padding(padding);
                for seed in 0..30 {
                    let result = crop.apply(&source, &mut Generator::new(seed));
                    if rows > tall || columns > wide {
                        assert!(matches!(result, Err(Error::InvalidOption { .. })));
                        continue;
                    }
                    let result = result.unwrap();
                    let [a, b, c, d] = Generator::new(seed).next_block();
                    let draw = |low: u32, high: u32, choices: usize| {
                        let word = u128::from(low) + (u128::from(high) << 32);
                        ((word * choices as u128) >> 64) as isize
                    };
                    let top = draw(a, b, tall - rows + 1) - padding as isize;
                    let left = draw(c, d, wide - columns + 1) - padding as isize;
                    places.insert((top, left));
                    assert_eq!(result.pixels.len(), rows * columns * channels);
                    for (y, x) in (0..rows).flat_map(|y| (0..columns).map(move |x| (y, x))) {
                        for channel in 0..channels {
                            let expected =
                                at(&source, top + y as isize, left + x as isize, channel);
                            let found = at(&result, y as isize, x as isize, channel);
                            assert_eq!(found, expected, "{source:?} {crop:?} {seed}");
                        }
                    }
                }
            }
        }
    }
    assert!(places.len() > 100);
}

#[test]
fn flips_mirror_pixels_as_often_as_they_should() {
    let source = image(3, 4, 3);
    let mut mirrored = 0;
    for seed in 0..1000 {
        let flip = RandomHorizontalFlip::new(0.25).unwrap();
        let result = flip.apply(source.clone(), &mut Generator::new(seed)).unwrap();
        if result == source {
            continue;
        }
        mirrored += 1;
        for (y, x, channel) in (0..3).flat_map(|y| (0..4).map(move |x| (y, x, y as usize))) {
            assert_eq!(at(&result, y, x, channel), at(&source, y, 3 - x, channel));
        }
    }
    // Five standard deviations of a binomial(1000, 1/4) are 68.
    assert!((182..=318).contains(&mirrored), "{mirrored}");
    let none = Image { width: 0, height: 3, channels: 3, pixels: Vec::new() };
    let always = RandomHorizontalFlip::new(1.0).unwrap();
    assert_eq!(always.apply(none.clone(), &mut Generator::new(0)).unwrap(), none);
}

#[test]
fn impossible_arguments_are_refused() {
    assert!(RandomHorizontalFlip::new(f64::NAN).is_err());
    assert!(RandomHorizontalFlip::new(1.5).is_err());
    assert!(Normalize::new(vec![0.0; 2], vec![1.0; 3]).is_err());
    assert!(Normalize::new(vec![0.0; 2], vec![1.0, 0.0]).is_err());
    let mut generator = Generator::new(0);
    let normalize = Normalize::new(vec![0.0; 2], vec![1.0; 2]).unwrap();
    let error = normalize.apply(&image(2, 2, 3)).unwrap_err().to_string();
    assert_eq!(error, "normalize: number of channels is 3: must be the number of means, 2");
    let short = Image { width: 2, height: 2, channels: 2, pixels: vec![0; 7] };
    let error = normalize.apply(&short).unwrap_err().to_string();
    assert_eq!(error, "normalize: number of bytes is 7: must be 2 * 2 * 2");
    assert!(RandomCrop::new(1, 1).apply(&short, &mut generator).is_err());
    assert!(RandomHorizontalFlip::default().apply(short, &mut generator).is_err());
    let error = RandomCrop::new(3, 1).apply(&image(2, 2, 1), &mut generator).unwrap_err();
    assert_eq!(
        error.to_string(),
        "random crop: size is 3 x 1: must fit into an image of 2 x 2 with a padding of 0"
    );
    for (size, padding) in [(1, usize::MAX), (usize::MAX, usize::MAX / 2), (1 << 40, 1 << 40)] {
        let crop = RandomCrop::new(size, size).padding(padding);
        assert!(crop.apply(&image(2, 2, 1), &mut generator).is_err());
    }
    let crop = RandomCrop::new(1, 1).padding(usize::MAX / 4);
    assert_eq!(crop.apply(&image(2, 2, 1), &mut generator).unwrap().pixels, [0]);
}

#[test]
fn workers_and_resuming_change_no_transform() {
    let (crop, flip) = (RandomCrop::new(4, 4).padding(2), RandomHorizontalFlip::default());
    let normalize = Normalize::new(vec![0.5; 3], vec![0.25; 3]).unwrap();
    let data = Memory::new(vec![image(5, 6, 3); 40]).map(move |image, cx| {
        let image = crop.apply(&image, cx.rng())?;
        normalize.apply(&flip.apply(image, cx.rng())?)
    });
    let data = std::sync::Arc::new(data);
    let loader = |workers| {
        let loader = DataLoader::builder(data.clone()).batch_size(7).shuffle(true);
        loader.workers(workers).build().unwrap()
    };
    let whole: Vec<_> = loader(0).epoch(1).collect::<Result<_>>().unwrap();
    assert_ne!(whole[0].data.row(0), whole[0].data.row(1));
    for workers in [1, 3] {
        let mut epoch = loader(workers).epoch(1);
        let mut found: Vec<_> = epoch.by_ref().take(2).map(Result::unwrap).collect();
        found.extend(loader(2).resume(&epoch.state().unwrap()).unwrap().map(Result::unwrap));
        assert_eq!(found, whole);
    }
}
