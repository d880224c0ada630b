//! The sum over micro-batches has the same bits, whoever computes which part.

use samebits_autograd::optim::{TreeNode, TreeSum};
use samebits_autograd::{Error, Gradients, Result, Tensor, backward};
use samebits_numerics::nan::canonical;
use samebits_rng::Generator;

fn add(a: f32, b: f32) -> Result<f32> {
    Ok(canonical(a + b))
}

/// Computes the sum by its written definition.
fn recursion(values: &[f32]) -> f32 {
    match values {
        [value] => *value,
        _ => {
            let half = values.len().next_power_of_two() / 2;
            add(recursion(&values[..half]), recursion(&values[half..])).unwrap()
        }
    }
}

/// Sums those values alone.
fn part(first: usize, values: &[f32]) -> Vec<TreeNode<f32>> {
    let mut sum = TreeSum::starting_at(first as u64);
    for &value in values {
        sum.push(value, add).unwrap();
    }
    assert_eq!(sum.next(), (first + values.len()) as u64);
    sum.into_nodes()
}

/// Returns numbers of both signs, over forty powers of two.
fn values(count: usize, seed: u64) -> Vec<f32> {
    let mut generator = Generator::new(seed);
    let value = |bits: u32| {
        let size = f32::from_bits(((100 + bits % 40) << 23) | (bits >> 9));
        if bits.is_multiple_of(2) { size } else { -size }
    };
    (0..count).map(|_| value(generator.next_block()[0])).collect()
}

#[test]
fn the_sum_is_that_of_the_recursion_however_the_numbers_are_dealt_out() {
    let (mut sums, mut left_folds_that_differ) = (0, 0);
    for count in 1..=40 {
        for seed in 0..4 {
            let values = values(count, seed * 100 + count as u64);
            let expected = recursion(&values);
            let left = values.iter().copied().reduce(|a, b| a + b).unwrap();
            left_folds_that_differ += usize::from(left.to_bits() != expected.to_bits());
            // As many places as values, and more: the last step of an epoch is short.
            for places in [count, count + 1, 2 * count + 1, 64] {
                for ranks in 1..=places {
                    let mut joined = TreeSum::default();
                    for rank in 0..ranks {
                        let cut = |rank: usize| (rank * places / ranks).min(count);
                        let (first, end) = (cut(rank), cut(rank + 1));
                        let nodes = part(first, &values[first..end]);
                        let most = 2 * (places / ranks + 1).ilog2() as usize + 1;
                        assert!(nodes.len() <= most, "{nodes:?} of {first}..{end}");
                        for node in nodes {
                            joined.push_node(node, add).unwrap();
                        }
                    }
                    let sum = joined.finish(add).unwrap().unwrap();
                    assert_eq!(sum.to_bits(), expected.to_bits(), "{count}, {ranks} of {places}");
                    sums += 1;
                }
            }
        }
    }
    assert!(sums > 20_000, "{sums}");
    // The negative control: the order matters.
    assert!(left_folds_that_differ > 50, "{left_folds_that_differ} of 160");
}

#[test]
fn an_aligned_power_of_two_is_one_node_and_another_range_a_few() {
    let levels = |range: std::ops::Range<usize>| -> Vec<(u64, u32)> {
        let nodes = part(range.start, &values(range.len(), 1));
        nodes.iter().map(|node| (node.first, node.level)).collect()
    };
    assert_eq!(levels(8..16), [(8, 3)]);
    assert_eq!(levels(3..8), [(3, 0), (4, 2)]);
    assert_eq!(levels(1..7), [(1, 0), (2, 1), (4, 1), (6, 0)]);
    assert_eq!(levels(6..12), [(6, 1), (8, 2)]);
    assert!(levels(5..5).is_empty());
}

#[test]
fn nan_is_canonical_and_the_sign_of_zero_stays() {
    let sum = |values: &[f32]| {
        let mut sum = TreeSum::default();
        values.iter().for_each(|&value| sum.push(value, add).unwrap());
        sum.finish(add).unwrap().map(f32::to_bits)
    };
    let odd_nan = f32::from_bits(0xffc1_2345);
    assert_eq!(sum(&[1.0, odd_nan, 2.0]), Some(0x7fc0_0000));
    assert_eq!(sum(&[f32::INFINITY, 1.0, f32::NEG_INFINITY, 1.0]), Some(0x7fc0_0000));
    assert_eq!(sum(&[-0.0, -0.0, -0.0]), Some((-0.0f32).to_bits()));
    assert_eq!(sum(&[-0.0, 0.0, -0.0]), Some(0));
    assert_eq!(sum(&[]), None);
}

#[test]
fn nodes_that_do_not_follow_are_refused() {
    let mut sum = TreeSum::starting_at(4);
    let node = |first, level| TreeNode { first, level, sum: 1.0f32 };
    for (wrong, named) in [
        (node(5, 0), "starts at 4, got 2^0 values from 5 on"),
        (node(4, 3), "starts at 4, got 2^3 values from 4 on"),
        (node(4, 64), "got 2^64 values"),
        (node(0, 2), "got 2^2 values from 0 on"),
    ] {
        let error = sum.push_node(wrong, add).unwrap_err();
        assert!(error.to_string().contains(named), "{error}");
    }
    sum.push_node(node(4, 2), add).unwrap();
    let error = sum.finish(add).unwrap_err();
    assert!(error.to_string().contains("the number 0, got 4"), "{error}");
    let mut last = TreeSum::starting_at(u64::MAX);
    assert!(last.push(1.0f32, add).is_err());
}

/// Returns the gradient of a micro-batch that may not use a parameter.
fn gradients(parameters: &[Tensor], values: &[Option<f32>]) -> Gradients {
    let results = parameters.iter().zip(values);
    let results = results.filter_map(|(x, value)| Some((x, Tensor::scalar((*value)?))));
    let doubled: Vec<_> = results.map(|(x, g)| (x.add(x).unwrap(), g)).collect();
    let results: Vec<_> = doubled.iter().map(|(x, g)| (x, g.clone())).collect();
    backward(&results, false).unwrap()
}

#[test]
fn a_parameter_that_some_micro_batches_do_not_use_has_the_sum_of_the_others() {
    let leaf = || Tensor::scalar(0.0f32).set_requires_grad(true).unwrap();
    let parameters = [leaf(), leaf(), leaf()];
    let of = |gradients: &Gradients, at: usize| {
        gradients.of(&parameters[at]).map(|g| g.item::<f32>().unwrap())
    };
    for count in 1..=9 {
        let (all, some) = (values(count, 3), values(count, 4));
        let uses = |v: usize| v % 3 == 1;
        for cut in 0..=count {
            let nodes = [0..cut, cut..count].map(|range| {
                let mut sum = TreeSum::starting_at(range.start as u64);
                for v in range {
                    let some = uses(v).then_some(some[v]);
                    let gradients = gradients(&parameters, &[Some(all[v]), some, None]);
                    sum.push(gradients, Gradients::plus).unwrap();
                }
                sum.into_nodes()
            });
            let mut joined = TreeSum::default();
            for node in nodes.into_iter().flatten() {
                joined.push_node(node, Gradients::plus).unwrap();
            }
            let sum = joined.finish(Gradients::plus).unwrap().unwrap();
            // A missing addend is the identity, -0.
            let twice = |x: &f32| x + x;
            let expected = recursion(&all.iter().map(twice).collect::<Vec<_>>());
            assert_eq!(of(&sum, 0).map(f32::to_bits), Some(expected.to_bits()));
            let present = |v| if uses(v) { twice(&some[v]) } else { -0.0 };
            let expected = recursion(&(0..count).map(present).collect::<Vec<_>>());
            let expected = (count > 1).then_some(expected.to_bits());
            assert_eq!(of(&sum, 1).map(f32::to_bits), expected);
            // A missing gradient is not a gradient of zero.
            assert_eq!(of(&sum, 2), None);
        }
    }
}

#[test]
fn a_gradient_is_set_for_a_parameter_alone_and_like_it() {
    let x = Tensor::from_slice(&[1.0f32, 2.0], &[2]).unwrap().set_requires_grad(true).unwrap();
    let like = |values: &[f32]| Tensor::from_slice(values, &[values.len()]).unwrap();
    let mut gradients = Gradients::default();
    gradients.set(&x, Some(like(&[3.0, 4.0]))).unwrap();
    assert_eq!(gradients.of(&x).unwrap().to_vec::<f32>().unwrap(), [3.0, 4.0]);
    // It is added like any other.
    let more = x.sum_all().unwrap().backward().unwrap();
    gradients = gradients.plus(more).unwrap();
    assert_eq!(gradients.of(&x).unwrap().to_vec::<f32>().unwrap(), [4.0, 5.0]);
    let shape = gradients.set(&x, Some(like(&[1.0]))).unwrap_err();
    assert!(matches!(shape, Error::ShapeMismatch { .. }), "{shape}");
    let wide = Tensor::from_slice(&[1.0f64, 2.0], &[2]).unwrap();
    let dtype = gradients.set(&x, Some(wide)).unwrap_err();
    assert!(matches!(dtype, Error::DTypeMismatch { .. }), "{dtype}");
    for no_parameter in [x.square().unwrap(), like(&[1.0, 2.0]), x.detach()] {
        let error = gradients.set(&no_parameter, Some(like(&[1.0, 2.0]))).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    }
    assert_eq!(gradients.of(&x).unwrap().to_vec::<f32>().unwrap(), [4.0, 5.0]);
    gradients.set(&x, None).unwrap();
    assert!(gradients.of(&x).is_none());
}
