//! Random numbers without tensors: addressed by seed, stream and position.

use samebits::rng::{Generator, numpy, torch};

pub(super) fn run() -> super::Result<()> {
    let root = Generator::new(42);
    let mut numbers = vec![0.0f32; 1000];
    root.clone().fill_normal_f32(&mut numbers, 0.0, 1.0)?;

    // The same numbers in two parts, in any order: the second half begins at its own position.
    let (mut left, mut right) = (vec![0.0f32; 500], vec![0.0f32; 500]);
    let mut second = root.clone();
    let mut first = root.clone();
    first.fill_normal_f32(&mut left, 0.0, 1.0)?;
    second.advance(first.offset() - root.offset());
    second.fill_normal_f32(&mut right, 0.0, 1.0)?;
    println!("{:?} {:?}", &numbers[..2], &numbers[500..502]);
    assert_eq!(numbers[..500], left);
    assert_eq!(numbers[500..], right);

    // One generator for each worker, whoever draws first; names keep purposes apart.
    let (third, names) = (root.fold_in(3), root.derive("augmentation"));
    assert_ne!(third, names);
    assert_eq!(third, Generator::new(42).fold_in(3));

    // The numbers of other libraries, to the bit: np.random.default_rng(7).random(), and
    // torch.manual_seed(7); torch.rand(1).
    let mut of_numpy = numpy::default_rng(7);
    assert_eq!(of_numpy.random().to_bits(), 0x3fe4_00c8_353e_3ca9);
    let mut of_torch = torch::CpuGenerator::manual_seed(7);
    let mut value = [0.0f32];
    of_torch.rand_f32(&mut value);
    assert_eq!(value[0].to_bits(), 0x3f08_f0af);
    Ok(())
}
