//! Elements in reverse order.

use samebits_cpu_kernels::Error;
use samebits_cpu_kernels::flip::flip;
use samebits_tensor_core::ops::FlipGroup;

use crate::invariance::{Random, everywhere};

fn groups(sizes: &[usize], first: bool) -> Vec<FlipGroup> {
    let sizes = sizes.iter().enumerate();
    sizes.map(|(i, &size)| FlipGroup { size, is_flipped: (i % 2 == 0) == first }).collect()
}

#[test]
fn flips_equal_the_loops() {
    let shapes: [&[usize]; 16] = [
        &[],
        &[1],
        &[100_003],
        &[300, 1],
        &[40_000, 2],
        &[20_000, 3],
        &[9000, 4],
        &[5000, 8],
        &[3000, 16],
        &[700, 45],
        &[2, 50_001],
        &[60, 7, 90],
        &[5, 4, 3, 2, 11],
        &[3, 2, 70, 3, 40],
        &[2; 11],
        &[3, 0, 2],
    ];
    for (case, shape) in shapes.into_iter().enumerate() {
        for first in [false, true] {
            let groups = groups(shape, first);
            let len: usize = shape.iter().product();
            let mut random = Random(case as u64);
            let input: Vec<u32> = (0..len).map(|_| random.next() as u32).collect();
            let from = |mut at: usize| {
                let (mut from, mut stride) = (0, 1);
                for group in groups.iter().rev() {
                    let (size, i) = (group.size, at % group.size);
                    from += stride * if group.is_flipped { size - 1 - i } else { i };
                    (at, stride) = (at / size, stride * size);
                }
                from
            };
            let expected: Vec<u32> = (0..len).map(|at| input[from(at)]).collect();
            everywhere(|| {
                let mut out = vec![0; len];
                flip(&mut out, &input, &groups).unwrap();
                assert!(out == expected, "{groups:?}");
            });
        }
    }
}

#[test]
fn slices_of_other_lengths_are_refused() {
    let groups = groups(&[2, 3], true);
    let refused = [flip(&mut [0; 6], &[0; 5], &groups), flip(&mut [0; 7], &[0; 6], &groups)];
    assert!(refused.into_iter().all(|found| matches!(found, Err(Error::Length { .. }))));
}
