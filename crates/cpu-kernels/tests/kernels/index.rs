//! Reads, assignments and their gradients.

use crate::exact::BigSum;
use crate::invariance::{Random, bits, everywhere};
use samebits_cpu_kernels::Error;
use samebits_cpu_kernels::index::{
    gather, gather_backward, index_copy, index_select, index_select_backward, linear_index, put,
    repeat_interleave_index, scatter, take,
};
use samebits_tensor_core::ops::IndexAdd;
use samebits_tensor_core::{Tensor, dispatch};

const SHAPES: [([usize; 3], usize); 12] = [
    ([1, 3, 1], 8),
    ([2, 5, 3], 7),
    ([3, 70, 17], 300),
    ([1, 200_000, 1], 300_000),
    ([2, 4000, 40], 3000),
    ([4, 1, 30_000], 2),
    ([4000, 13, 1], 5),
    ([3000, 3, 2], 8),
    ([700, 7, 3], 9),
    ([300, 5, 4], 6),
    ([200, 9, 8], 4),
    ([110, 6, 16], 15),
];

#[test]
fn index_select_and_index_copy_equal_the_loops() {
    for (case, (shape, n)) in SHAPES.into_iter().enumerate() {
        let [outer, dim, inner] = shape;
        let mut random = Random(case as u64);
        let index = random.indices(n, dim);
        let input: Vec<u32> = (0..outer * dim * inner).map(|_| random.next() as u32).collect();
        let source: Vec<u32> = (0..outer * n * inner).map(|_| random.next() as u32).collect();
        let mut selected = vec![0; outer * n * inner];
        let mut copied = input.clone();
        for o in 0..outer {
            for (k, &i) in index.iter().enumerate() {
                for j in 0..inner {
                    let (at, from) = ((o * n + k) * inner + j, (o * dim + i as usize) * inner + j);
                    selected[at] = input[from];
                    copied[from] = source[at];
                }
            }
        }
        let got = everywhere(|| {
            let mut out = vec![0; selected.len()];
            index_select("select", &mut out, &input, shape, &index).unwrap();
            let mut copy = input.clone();
            index_copy(&mut copy, shape, &index, &source).unwrap();
            (out, copy)
        });
        assert!(got == (selected, copied), "{shape:?}, {n}");
    }
}

#[test]
fn an_index_that_counts_down_reverses() {
    for (outer, dim, from, to) in [(1, 5, 0, 5), (3000, 13, 2, 11), (2, 40_000, 1, 39_999)] {
        let input: Vec<u32> = (0..(outer * dim) as u32).collect();
        let index: Vec<i64> = (from..to).rev().collect();
        let row = |o: usize| input[o * dim..][from as usize..to as usize].iter().rev().copied();
        let reversed: Vec<u32> = (0..outer).flat_map(row).collect();
        let got = everywhere(|| {
            let mut out = vec![0; reversed.len()];
            index_select("select", &mut out, &input, [outer, dim, 1], &index).unwrap();
            out
        });
        assert!(got == reversed, "{outer} rows of {dim}");
    }
}

#[test]
fn gather_and_scatter_equal_the_loops() {
    for (case, (shape, n)) in SHAPES.into_iter().enumerate() {
        let [outer, dim, inner] = shape;
        let mut random = Random(50 + case as u64);
        let index = random.indices(outer * n * inner, dim);
        let input: Vec<u64> = (0..outer * dim * inner).map(|_| random.next()).collect();
        let source: Vec<u64> = (0..outer * n * inner).map(|_| random.next()).collect();
        let mut gathered = vec![0; source.len()];
        let mut scattered = input.clone();
        for o in 0..outer {
            for k in 0..n {
                for j in 0..inner {
                    let at = (o * n + k) * inner + j;
                    let from = (o * dim + index[at] as usize) * inner + j;
                    gathered[at] = input[from];
                    scattered[from] = source[at];
                }
            }
        }
        let got = everywhere(|| {
            let mut out = vec![0; source.len()];
            gather(&mut out, &input, shape, &index).unwrap();
            let mut target = input.clone();
            scatter(&mut target, shape, &index, &source).unwrap();
            (out, target)
        });
        assert!(got == (gathered, scattered), "{shape:?}, {n}");
    }
}

#[test]
fn gradients_are_exact_sums() {
    for (case, (shape, n)) in SHAPES.into_iter().enumerate() {
        let [outer, dim, inner] = shape;
        let mut random = Random(100 + case as u64);
        let index = random.indices(n, dim);
        let grad: Vec<f32> = random.wide(outer * n * inner);
        let mut sums = vec![BigSum::new(); outer * dim * inner];
        for (at, &g) in grad.iter().enumerate() {
            let (o, k, j) = (at / (n * inner), at / inner % n, at % inner);
            sums[(o * dim + index[k] as usize) * inner + j].add(g);
        }
        let expected: Vec<f32> = sums.iter().map(BigSum::to_f32).collect();
        let expanded: Vec<i64> = (0..grad.len()).map(|at| index[at / inner % n]).collect();
        let got = everywhere(|| {
            let mut back = vec![9.0; expected.len()];
            index_select_backward(&mut back, shape, &index, &grad).unwrap();
            let mut gathered = vec![9.0; expected.len()];
            gather_backward(&mut gathered, shape, &expanded, &grad).unwrap();
            (bits(&back), bits(&gathered))
        });
        assert!(got == (bits(&expected), bits(&expected)), "{shape:?}, {n}");
    }
}

#[test]
fn put_take_and_linear_indices() {
    let linear = linear_index("put", &[&[0, -1, 1, 0], &[2, 0, -3, 2]], &[2, 3]).unwrap();
    assert_eq!(linear, [2, 3, 3, 2]);
    let mut out = [0u8; 12];
    put(&mut out, [6, 2], &linear, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    assert_eq!(out, [0, 0, 0, 0, 7, 8, 5, 6, 0, 0, 0, 0]);
    let mut row = [0u8; 4];
    take(&mut row, &out, [6, 2], &[-4, 2]).unwrap();
    assert_eq!(row, [7, 8, 7, 8]);
    let error = take(&mut row, &out, [6, 2], &[0, 6]).unwrap_err();
    assert_eq!(error, Error::IndexOutOfRange { op: "take", position: 1, index: 6, size: 6 });
    assert!(linear_index("put", &[&[0], &[2]], &[2]).is_err());
    assert!(linear_index("put", &[&[0], &[2, 1]], &[2, 3]).is_err());
    assert!(linear_index("put", &[], &[]).is_err());
    assert!(linear_index("put", &[&[2]], &[2]).is_err());
}

#[test]
fn repeats() {
    assert_eq!(repeat_interleave_index(&[]).unwrap(), []);
    assert_eq!(repeat_interleave_index(&[0, 3, 1]).unwrap(), [1, 1, 1, 2]);
    assert_eq!(
        repeat_interleave_index(&[1, -2]).unwrap_err().to_string(),
        "repeat_interleave: the count at position 1 must not be negative, got -2"
    );
    assert!(repeat_interleave_index(&[i64::MAX, i64::MAX]).is_err());
}

#[test]
fn gathered_elements_are_those_named() {
    for shape in [[1, 5, 1], [7, 9, 1], [3, 6, 2], [4, 5, 9], [40, 2, 3], [2, 300, 70]] {
        let [outer, dim, inner] = shape;
        for n in [1, 4, 900] {
            let mut random = Random(17);
            let input: Vec<u64> = (0..outer * dim * inner).map(|_| random.next()).collect();
            let index = random.indices(outer * n * inner, dim);
            let expected: Vec<u64> = (0..index.len())
                .map(|e| {
                    let (o, j) = (e / inner / n, e % inner);
                    input[(o * dim + index[e] as usize) * inner + j]
                })
                .collect();
            let got = everywhere(|| {
                let mut out = vec![0; index.len()];
                gather(&mut out, &input, shape, &index).unwrap();
                out
            });
            assert_eq!(got, expected, "{shape:?}, {n}");
        }
    }
}

#[test]
fn values_keep_their_bits() {
    let nan = f32::from_bits(0xffc1_2345);
    let mut out = [0.0f32; 2];
    index_select("select", &mut out, &[nan, -0.0], [1, 2, 1], &[0, 1]).unwrap();
    assert_eq!(bits(&out), [0xffc1_2345, 0x8000_0000]);
}

#[test]
fn bad_indices_and_lengths_are_refused() {
    let mut out = [7.0f32; 2];
    let expected = |op| Error::IndexOutOfRange { op, position: 1, index: 3, size: 3 };
    let input = [1.0f32; 3];
    let shape = [1, 3, 1];
    let index = [0, 3];
    let error = index_select("embedding", &mut out, &input, shape, &index).unwrap_err();
    assert_eq!(error, expected("embedding"));
    assert_eq!(out, [7.0; 2]);
    assert_eq!(gather(&mut out, &input, shape, &index).unwrap_err(), expected("gather"));
    let error = gather(&mut out, &input, shape, &[-1, 0]).unwrap_err();
    assert_eq!(error, Error::IndexOutOfRange { op: "gather", position: 0, index: -1, size: 3 });
    let mut target = [7.0f32; 3];
    let source = [1.0f32; 2];
    assert_eq!(scatter(&mut target, shape, &index, &source).unwrap_err(), expected("scatter"));
    let error = index_copy(&mut target, shape, &index, &source).unwrap_err();
    assert_eq!(error, expected("index_copy"));
    let error = gather_backward(&mut target, shape, &index, &source).unwrap_err();
    assert_eq!(error, expected("gather"));
    let error = index_select_backward(&mut target, shape, &index, &source).unwrap_err();
    assert_eq!(error, expected("index_select"));
    assert_eq!(target, [7.0; 3]);
    assert!(index_select("x", &mut out, &input, [1, 2, 1], &[0, 1]).is_err());
    assert!(gather(&mut out, &input, shape, &[0]).is_err());
    index_select::<f32>("x", &mut [], &[], [0, 3, 1], &[0]).unwrap();
    index_select::<f32>("x", &mut [], &input, shape, &[]).unwrap();
}

#[test]
fn long_pieces_of_sources_are_read_in_place() {
    samebits_cpu_kernels::install();
    let tensor = |shape: &[usize], seed| {
        let len: usize = shape.iter().product();
        let mut random = Random(seed);
        let values: Vec<i64> = (0..len).map(|_| random.next() as i64).collect();
        Tensor::from_slice(&values, shape).unwrap()
    };
    let indices =
        |n: usize, size: usize| Tensor::from_slice(&Random(9).indices(n, size), &[n]).unwrap();
    // (Input, dimension, source before it is narrowed, the dimension that is narrowed).
    for (shape, dim, wide, narrowed) in [
        (&[3, 5, 7][..], 2, &[3, 6, 30_000][..], 1),
        (&[3, 5, 7], 1, &[4, 20_000, 7], 0),
        (&[2, 3, 5, 7], 2, &[2, 4, 20_000, 7], 1),
        (&[2, 3, 5, 7], 3, &[2, 3, 6, 30_000], 2),
        (&[4, 5], 1, &[5, 70_000], 0),
        (&[4, 5], 0, &[70_000, 6], 1),
        (&[5, 3], 0, &[1, 70_000], 1),
        (&[2, 0, 70_000], 0, &[1, 0, 70_001], 2),
    ] {
        let input = tensor(shape, 1);
        let source = tensor(wide, 2);
        let size = if narrowed == dim { wide[narrowed] - 1 } else { shape[narrowed] };
        let source = source.narrow(narrowed, 1.min(wide[narrowed] - size), size).unwrap();
        let index = indices(source.shape()[dim], shape[dim]);
        let add = |source: Tensor| {
            let (input, index) = (input.clone(), index.clone());
            let sum = dispatch(&IndexAdd { input, dim, index, source, alpha: 1.0 }).unwrap();
            sum.to_vec::<i64>().unwrap()
        };
        assert!(add(source.clone()) == add(source.contiguous().unwrap()), "{shape:?} {wide:?}");
    }
    // Leading dimensions that repeat one piece.
    let source = tensor(&[1, 1, 70_000], 3).expand(&[3, 2, 70_000]).unwrap();
    let (input, index) = (tensor(&[3, 2, 4], 4), indices(70_000, 4));
    let add = |source| {
        let (input, index) = (input.clone(), index.clone());
        let op = IndexAdd { input, dim: 2, index, source, alpha: 1.0 };
        dispatch(&op).unwrap().to_vec::<i64>().unwrap()
    };
    assert!(add(source.clone()) == add(source.contiguous().unwrap()));
    // Nothing can be added to a dimension without elements.
    let source = tensor(&[3, 2, 70_000], 5).narrow(1, 0, 1).unwrap();
    let (input, index) = (tensor(&[3, 1, 0], 6), indices(70_000, 4));
    let refused = dispatch(&IndexAdd { input, dim: 2, index, source, alpha: 1.0 });
    assert!(refused.unwrap_err().to_string().starts_with("index_add: "));
}
