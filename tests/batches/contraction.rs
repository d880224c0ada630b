use samebits::functional as f;
use samebits::ops::ConvParams;

use super::{Batches, Make};

pub(super) fn add(batches: &mut Batches, make: Make) {
    for (rows, k, n) in [(13, 700, 33), (70, 40, 1), (5, 3, 257)] {
        batches.add(
            make.name(&format!("rows of a product {rows} {k} {n}")),
            [make.each(&[rows, k], 1), make.shared(&[k, n], 2)],
            |x| Ok(vec![f::matmul(&x[0], &x[1])?]),
        );
    }
    batches.add(
        make.name("bmm"),
        [make.each(&[7, 20, 300], 3), make.each(&[7, 300, 33], 4)],
        |x| Ok(vec![f::bmm(&x[0], &x[1])?]),
    );
    batches.add(
        make.name("matmul, broadcast"),
        [make.each(&[5, 3, 20, 30], 5), make.shared(&[3, 30, 9], 6)],
        |x| Ok(vec![f::matmul(&x[0], &x[1])?]),
    );
    batches.add(
        make.name("linear"),
        [make.each(&[6, 3, 50], 7), make.shared(&[60, 50], 8), make.shared(&[60], 9)],
        |x| Ok(vec![f::linear(&x[0], &x[1], Some(&x[2]))?]),
    );
    batches.add(
        make.name("baddbmm"),
        [make.each(&[6, 9, 8], 10), make.each(&[6, 9, 40], 11), make.each(&[6, 40, 8], 12)],
        |x| Ok(vec![f::baddbmm(&x[0], &x[1], &x[2], 0.5, 2.0)?]),
    );
    for (input, weight, params) in convolutions() {
        let output = params.output_shape("case", &input, &weight).unwrap();
        let channels = weight[1] * params.groups;
        let more: Vec<usize> = params.stride.iter().map(|stride| stride - 1).collect();
        let name = format!("{input:?} {weight:?} {params:?}");
        let again = params.clone();
        batches.add(
            make.name(&format!("conv {name}")),
            [make.each(&input, 13), make.shared(&weight, 14), make.shared(&weight[..1], 15)],
            move |x| Ok(vec![f::conv(&x[0], &x[1], Some(&x[2]), &params)?]),
        );
        batches.add(
            make.name(&format!("conv_transpose {name}")),
            [make.each(&output, 16), make.shared(&weight, 17), make.shared(&[channels], 18)],
            move |x| Ok(vec![f::conv_transpose(&x[0], &x[1], Some(&x[2]), &again, &more)?]),
        );
    }
}

fn convolutions() -> Vec<(Vec<usize>, Vec<usize>, ConvParams)> {
    let params = |stride: &[usize], padding: &[usize], dilation: &[usize], groups| ConvParams {
        stride: stride.to_vec(),
        padding: padding.to_vec(),
        dilation: dilation.to_vec(),
        groups,
    };
    vec![
        (vec![5, 16, 14, 15], vec![24, 16, 3, 3], ConvParams::padded(2, 1)),
        (vec![4, 6, 9, 11], vec![9, 2, 2, 3], params(&[2, 1], &[1, 0], &[1, 2], 3)),
        (vec![4, 8, 12, 12], vec![8, 1, 3, 3], params(&[1, 1], &[1, 1], &[1, 1], 8)),
        (vec![4, 4, 50], vec![5, 4, 7], params(&[3], &[3], &[1], 1)),
        (vec![3, 3, 6, 7, 8], vec![4, 3, 3, 2, 3], params(&[1, 2, 1], &[1, 0, 1], &[1, 1, 2], 1)),
        // So much work that algorithms race.
        (vec![4, 16, 40, 40], vec![32, 16, 3, 3], ConvParams::padded(2, 1)),
    ]
}
