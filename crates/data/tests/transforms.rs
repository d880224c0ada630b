//! Image transforms: against plain definitions, and the same for any number of workers.

use samebits_data::{
    Affine, Collate, ColorJitter, CutMix, DataLoader, DatasetExt, Error, Image, Interpolation,
    Keep, Memory, MixUp, Normalize, RandomAffine, RandomCrop, RandomHorizontalFlip, Result,
};
use samebits_rng::Generator;

fn image(height: usize, width: usize, channels: usize) -> Image {
    let pixels = (0..height * width * channels).map(|i| (7 * i + 1) as u8).collect();
    Image { width, height, channels, pixels }
}

/// Returns the byte at row `y` and column `x`, which may lie outside.
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
fn numbers_are_centred_and_scaled_by_channel() {
    let normalize = Normalize::new(vec![0.25, 0.5], vec![0.5, 0.125]).unwrap();
    let image = Image { width: 2, height: 1, channels: 2, pixels: vec![0, 0, 255, 255] };
    assert_eq!(normalize.apply(&image).unwrap(), [-0.5, 1.5, -4.0, 4.0]);
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

/// The results of torchvision's `affine` formulas with PyTorch 2.11 in f64: inverse matrix, grid,
/// and `grid_sample` with zeros outside and `align_corners=False`; bilinear values rounded.
#[test]
#[rustfmt::skip]
fn affine_gives_the_figures_of_torchvision() {
    type Case = (f64, [f64; 2], f64, [f64; 2], [u8; 30], [u8; 30]);
    let cases: [Case; 5] = [
        (30.0, [0.0, 0.0], 1.0, [0.0, 0.0],
         [0, 233, 14, 85, 122, 0, 199, 236, 51, 51, 122, 159, 165, 202, 17, 54, 125, 162, 168, 205, 20, 20, 91, 128, 0, 205, 242, 57, 94, 0],
         [72, 189, 33, 82, 59, 3, 155, 208, 64, 71, 120, 146, 169, 205, 71, 60, 109, 158, 143, 207, 128, 49, 98, 118, 3, 110, 224, 46, 87, 37]),
        (-45.0, [1.0, -2.0], 1.3, [0.0, 0.0],
         [48, 14, 51, 17, 54, 20, 233, 14, 236, 17, 239, 20, 233, 199, 236, 202, 239, 205, 0, 199, 165, 202, 168, 205, 0, 0, 165, 131, 168, 0],
         [40, 31, 48, 35, 52, 38, 146, 124, 155, 125, 159, 129, 115, 207, 212, 207, 215, 211, 0, 96, 173, 175, 176, 107, 0, 0, 78, 136, 85, 1]),
        (10.0, [0.0, 1.0], 0.7, [20.0, 0.0],
         [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 233, 14, 85, 159, 196, 0, 236, 17, 54, 91, 0, 131, 168, 242, 57, 94, 0],
         [0, 0, 0, 0, 0, 0, 0, 0, 7, 4, 0, 0, 0, 172, 27, 84, 141, 185, 37, 206, 74, 64, 121, 31, 123, 186, 171, 50, 71, 0]),
        (0.0, [-1.0, 0.0], 1.0, [-15.0, 25.0],
         [0, 122, 122, 125, 162, 0, 48, 51, 88, 91, 128, 0, 14, 17, 54, 57, 94, 0, 236, 239, 20, 23, 23, 0, 202, 205, 205, 0, 0, 0],
         [22, 82, 132, 148, 121, 0, 55, 71, 88, 104, 121, 18, 73, 27, 47, 60, 77, 32, 223, 192, 124, 98, 32, 16, 179, 195, 169, 55, 0, 0]),
        (200.0, [1.0, 1.0], 1.1, [5.0, -35.0],
         [0, 0, 94, 57, 242, 0, 0, 162, 91, 57, 242, 0, 0, 196, 125, 54, 239, 205, 0, 159, 125, 54, 17, 202, 0, 0, 122, 88, 17, 202],
         [0, 65, 101, 43, 124, 0, 11, 134, 109, 49, 187, 75, 38, 176, 117, 57, 142, 194, 0, 127, 125, 65, 109, 202, 0, 15, 133, 73, 67, 210]),
    ];
    let pixels = (0..30).map(|i| (37 * i + 11) as u8).collect();
    let image = Image { width: 6, height: 5, channels: 1, pixels };
    for (angle, translate, scale, shear, nearest, bilinear) in cases {
        for (interpolation, expected) in
            [(Interpolation::Nearest, nearest), (Interpolation::Bilinear, bilinear)]
        {
            let affine = Affine { angle, translate, scale, shear, interpolation, fill: 0 };
            assert_eq!(affine.apply(&image).unwrap().pixels, expected, "{affine:?}");
        }
    }
}

#[test]
fn affine_keeps_channels_apart_and_fills_the_outside() {
    let source = image(4, 7, 3);
    for interpolation in [Interpolation::Nearest, Interpolation::Bilinear] {
        let whole = Affine { interpolation, ..Affine::default() };
        assert_eq!(whole.apply(&source).unwrap(), source);
        let moved = Affine { translate: [2.0, -1.0], fill: 77, ..whole }.apply(&source).unwrap();
        for (y, x, channel) in
            (0..4).flat_map(|y| (0..7).flat_map(move |x| (0..3).map(move |c| (y, x, c))))
        {
            let outside = x < 2 || y > 2;
            let expected = if outside { 77 } else { at(&source, y + 1, x - 2, channel) };
            assert_eq!(at(&moved, y, x, channel), expected);
        }
    }
    // An interpolated border mixes with the fill.
    let row = Image { width: 2, height: 1, channels: 1, pixels: vec![100, 200] };
    let half = Affine {
        translate: [0.5, 0.0],
        interpolation: Interpolation::Bilinear,
        fill: 20,
        ..Affine::default()
    };
    assert_eq!(half.apply(&row).unwrap().pixels, [60, 150]);
    let none = Image { width: 0, height: 3, channels: 3, pixels: Vec::new() };
    assert_eq!(half.apply(&none).unwrap(), none);
}

#[test]
fn random_affines_stay_in_their_ranges_and_reach_their_ends() {
    let random = RandomAffine::new(30.0).unwrap().translate(0.25, 0.5).unwrap().scale(0.5, 2.0);
    let random = random.unwrap().shear([-10.0, 20.0], [5.0, 5.0]).unwrap().fill(3);
    let drawn: Vec<Affine> =
        (0..2000).map(|seed| random.draw(20, 40, &mut Generator::new(seed))).collect();
    let ends = |f: fn(&Affine) -> f64| {
        let values = || drawn.iter().map(f);
        (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
    };
    let within = |f, low: f64, high: f64, near: f64| {
        let (least, most) = ends(f);
        assert!(low <= least && least < low + near, "{least} from {low}");
        assert!(high - near < most && most <= high, "{most} to {high}");
    };
    within(|a| a.angle, -30.0, 30.0, 0.2);
    within(|a| a.translate[0], -10.0, 10.0, 1.0);
    within(|a| a.translate[1], -10.0, 10.0, 1.0);
    within(|a| a.scale, 0.5, 2.0, 0.01);
    within(|a| a.shear[0], -10.0, 20.0, 0.1);
    assert!(drawn.iter().all(|a| a.shear[1] == 5.0 && a.fill == 3));
    assert!(drawn.iter().all(|a| a.translate.iter().all(|t| t.fract() == 0.0)));
    let [angle, ..] = Generator::new(9).next_block();
    assert_eq!(drawn[9].angle, -30.0 + 60.0 * (f64::from(angle >> 8) / f64::from(1 << 24)));
    let mut generator = Generator::new(9);
    random.apply(&image(2, 2, 1), &mut generator).unwrap();
    assert_eq!(generator.offset(), 2);
}

#[test]
fn impossible_affines_are_refused() {
    assert!(RandomAffine::new(-1.0).is_err());
    assert!(RandomAffine::new(f64::NAN).is_err());
    let random = RandomAffine::new(0.0).unwrap();
    assert!(random.translate(1.1, 0.0).is_err());
    assert!(random.scale(0.0, 1.0).is_err());
    assert!(random.scale(2.0, 1.0).is_err());
    assert!(random.shear([0.0, f64::INFINITY], [0.0; 2]).is_err());
    let plain = Affine::default();
    for (wrong, text) in [
        (Affine { angle: f64::NAN, ..plain }, "affine: angle is NaN: must be finite"),
        (Affine { scale: 0.0, ..plain }, "affine: scale is 0: must be positive and finite"),
        (Affine { shear: [0.0, 90.0], ..plain }, "affine: shear is 90: must not be a quarter turn"),
    ] {
        assert_eq!(wrong.apply(&image(2, 2, 1)).unwrap_err().to_string(), text);
    }
    for extreme in [f64::MAX, f64::MIN_POSITIVE] {
        let affine = Affine { scale: extreme, translate: [extreme; 2], fill: 1, ..plain };
        assert_eq!(affine.apply(&image(2, 2, 1)).unwrap().pixels.len(), 4);
    }
}

/// `torchvision.transforms.functional` with the factors and the order of the seed, written out.
#[test]
fn jitter_is_its_definition() {
    let source = image(4, 5, 3);
    let jitter = ColorJitter::new(0.5, 0.75, 1.5).unwrap();
    let mut orders = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let mut generator = Generator::new(seed);
        let [words, next] = [generator.next_block(), generator.next_block()];
        let unit = |word: u32| f64::from(word >> 8) / f64::from(1 << 24);
        let factors: Vec<f64> = [(0.5, 1.5), (0.25, 1.75), (0.0, 2.5)]
            .iter()
            .zip(words)
            .map(|(&(low, high), word)| low + (high - low) * unit(word))
            .collect();
        let first = (unit(next[0]) * 3.0) as usize;
        let others: Vec<usize> = (0..3).filter(|&x| x != first).collect();
        let second = others[(unit(next[1]) * 2.0) as usize];
        let order = [first, second, 3 - first - second];
        orders.insert(order);
        let mut pixels: Vec<f64> = source.pixels.iter().map(|&p| f64::from(p)).collect();
        for change in order {
            let grey = |p: &[f64]| (0.2989 * p[0] + 0.587 * p[1] + 0.114 * p[2]).floor();
            let greys: Vec<f64> = pixels.chunks(3).map(grey).collect();
            let mean = greys.iter().sum::<f64>() / greys.len() as f64;
            for (i, p) in pixels.iter_mut().enumerate() {
                let other = [0.0, mean, greys[i / 3]][change];
                let mixed = factors[change] * *p + (1.0 - factors[change]) * other;
                *p = mixed.clamp(0.0, 255.0).floor();
            }
        }
        let found = jitter.apply(source.clone(), &mut Generator::new(seed)).unwrap();
        let expected: Vec<u8> = pixels.iter().map(|&p| p as u8).collect();
        assert_eq!(found.pixels, expected, "seed {seed}");
    }
    assert_eq!(orders.len(), 6);
    assert!(ColorJitter::new(-0.1, 0.0, 0.0).is_err());
    assert!(ColorJitter::new(0.0, f64::NAN, 0.0).is_err());
    assert!(jitter.apply(image(2, 2, 2), &mut Generator::new(0)).is_err());
}

#[test]
fn hue_comes_anywhere_and_changes_no_other_draw() {
    let ranges = [0.5, 0.75, 1.5];
    let plain = ColorJitter::new(0.5, 0.75, 1.5).unwrap();
    let hued = plain.hue(0.5).unwrap();
    let unit = |word: u32| f64::from(word >> 8) / f64::from(1 << 24);
    let (source, red) = (image(4, 5, 3), Image { pixels: vec![255, 0, 0], ..image(1, 1, 3) });
    let mut places = std::collections::BTreeSet::new();
    for seed in 0..60 {
        let apply = |jitter: ColorJitter, image: &Image| {
            jitter.apply(image.clone(), &mut Generator::new(seed)).unwrap()
        };
        // One change at a time, in the order of the seed.
        let only = |change: usize| {
            let [a, b, c] = [0, 1, 2].map(|own| if own == change { ranges[own] } else { 0.0 });
            ColorJitter::new(a, b, c).unwrap().hue(if change == 3 { 0.5 } else { 0.0 }).unwrap()
        };
        let mut generator = Generator::new(seed);
        let [words, next] = [generator.next_block(), generator.next_block()];
        let mut left = vec![0, 1, 2];
        let mut order = vec![left.remove((unit(next[0]) * 3.0) as usize)];
        order.push(left.remove((unit(next[1]) * 2.0) as usize));
        order.extend(left);
        let place = (unit(next[2]) * 4.0) as usize;
        places.insert(place);
        order.insert(place, 3);
        let steps = order.iter().fold(source.clone(), |image, &change| apply(only(change), &image));
        assert_eq!(apply(hued, &source), steps, "seed {seed}");
        assert_eq!(apply(plain.hue(0.0).unwrap(), &source), apply(plain, &source));
        // Red with its hue rotated: a level is 2 less 6 times the distance to its hue, clamped.
        let turned = apply(only(3), &red).pixels;
        let part = unit(words[3]) - 0.5;
        for (level, third) in turned.into_iter().zip([0.0, 1.0, 2.0]) {
            let away = (part - third / 3.0).rem_euclid(1.0);
            let expected = (2.0 - 6.0 * away.min(1.0 - away)).clamp(0.0, 1.0) * 255.0;
            assert!((f64::from(level) - expected).abs() <= 1.0, "{level}, expected {expected}");
        }
        let grey = image(2, 3, 1);
        assert_eq!(apply(only(3), &grey), grey);
    }
    assert_eq!(places.len(), 4);
    for most in [-0.1, 0.6, f64::NAN] {
        let error = plain.hue(most).unwrap_err().to_string();
        assert_eq!(error, format!("color jitter: hue is {most}: must be from 0 to 0.5"));
    }
}

/// Returns samples of 2 channels of 3×4 numbers, all different.
fn labelled(count: usize) -> Vec<(Vec<f32>, i64)> {
    (0..count).map(|i| ((0..24).map(|j| (100 * i + j) as f32).collect(), i as i64 % 5)).collect()
}

#[test]
fn mixing_is_its_definition() {
    for seed in 0..20 {
        let samples = labelled(6);
        let part = Generator::new(seed).beta(0.4, 0.4).unwrap();
        let (own, other) = (part, (1.0 - f64::from(part)) as f32);
        let mixing = MixUp::new(0.4, 5).unwrap();
        let (images, classes) = mixing.collate(samples.clone(), &mut Generator::new(seed)).unwrap();
        for (i, (x, class)) in samples.iter().enumerate() {
            let (y, before) = &samples[(i + 5) % 6];
            let mixed: Vec<f32> = x.iter().zip(y).map(|(x, y)| x * own + y * other).collect();
            assert_eq!(images.row(i).unwrap(), mixed);
            let mut expected = [0.0; 5];
            expected[*class as usize] += own;
            expected[*before as usize] += other;
            assert_eq!(classes.row(i).unwrap(), expected);
        }
    }
}

#[test]
fn cutting_is_its_definition() {
    let (mut whole, mut none) = (0, 0);
    for seed in 0..200 {
        let samples = labelled(5);
        let mut generator = Generator::new(seed);
        let part = f64::from(generator.beta(1.0_f32, 1.0).unwrap());
        let column = generator.below(4_u64).unwrap() as f64;
        let row = generator.below(3_u64).unwrap() as f64;
        let reach = 0.5 * (1.0 - part).sqrt();
        let inside = |y: usize, x: usize| {
            let (down, right) = ((reach * 3.0).floor(), (reach * 4.0).floor());
            let (y, x) = (y as f64, x as f64);
            row - down <= y && y < row + down && column - right <= x && x < column + right
        };
        let cells = || (0..3).flat_map(|y| (0..4).map(move |x| (y, x)));
        let cut = cells().filter(|&(y, x)| inside(y, x)).count();
        (whole, none) = (whole + usize::from(cut == 12), none + usize::from(cut == 0));
        let cutting = CutMix::new(1.0, 5, 3, 4).unwrap();
        let (images, classes) =
            cutting.collate(samples.clone(), &mut Generator::new(seed)).unwrap();
        for (i, (own, class)) in samples.iter().enumerate() {
            let other = &samples[(i + 4) % 5].0;
            for (place, &found) in images.row(i).unwrap().iter().enumerate() {
                let from = if inside(place % 12 / 4, place % 4) { other } else { own };
                assert_eq!(found, from[place]);
            }
            let part = (1.0 - cut as f64 / 12.0) as f32;
            assert_eq!(classes.row(i).unwrap()[*class as usize], part);
        }
    }
    assert!(none > 10 && whole < 50, "{none} and {whole}");
}

#[test]
fn impossible_mixtures_are_refused() {
    let mut generator = Generator::new(0);
    for alpha in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        assert!(MixUp::new(alpha, 2).is_err());
        assert!(CutMix::new(alpha, 2, 1, 1).is_err());
    }
    assert!(CutMix::new(1.0, 2, 0, 4).is_err());
    assert!(CutMix::new(1.0, 2, usize::MAX, 2).is_err());
    let error = MixUp::new(1.0, 4).unwrap().collate(labelled(5), &mut generator).unwrap_err();
    assert_eq!(error.to_string(), "mixup: class is 4: must be below 4");
    assert!(MixUp::new(1.0, 4).unwrap().collate(vec![(vec![1.0], -1)], &mut generator).is_err());
    let error =
        CutMix::new(1.0, 5, 5, 5).unwrap().collate(labelled(2), &mut generator).unwrap_err();
    assert_eq!(error.to_string(), "cutmix: values of a sample is 24: must be channels of 5 x 5");
    let empty = MixUp::new(1.0, 4).unwrap().collate(Vec::new(), &mut generator).unwrap();
    assert_eq!((empty.0.rows, empty.1.rows), (0, 0));
}

#[test]
fn a_batch_has_the_same_generator_wherever_it_is_loaded() {
    let data = std::sync::Arc::new(Memory::new(labelled(23)));
    let loader = |workers| {
        let mixing = MixUp::new(0.5, 5).unwrap();
        let loader = DataLoader::builder_with(data.clone(), mixing).batch_size(4).shuffle(true);
        loader.workers(workers).build().unwrap()
    };
    let whole: Vec<_> = loader(0).epoch(1).collect::<Result<_>>().unwrap();
    let own = |batch: &samebits_data::Batch<(_, samebits_data::Stacked<f32>)>| {
        batch.data.1.values.clone()
    };
    assert_ne!(own(&whole[0]), own(&whole[1]));
    for workers in [1, 3] {
        for at in 0..whole.len() {
            let mut epoch = loader(workers).epoch(1);
            let mut found: Vec<_> = epoch.by_ref().take(at).map(Result::unwrap).collect();
            found.extend(loader(2).resume(&epoch.state().unwrap()).unwrap().map(Result::unwrap));
            assert_eq!(found, whole);
        }
    }
    let other: Vec<_> = loader(0).epoch(2).collect::<Result<_>>().unwrap();
    assert_ne!(own(&other[0]), own(&whole[0]));
    // Keep draws nothing, so a batch may be inspected as it is.
    let plain = DataLoader::builder_with(data.clone(), Keep).batch_size(4).shuffle(true);
    let plain: Vec<_> = plain.build().unwrap().epoch(1).map(Result::unwrap).collect();
    assert_eq!(plain[3].indices, whole[3].indices);
}
