//! The memory of attention grows with the sequence, not with its square.

use samebits::functional::{randn_with, scaled_dot_product_attention};
use samebits::rng::Generator;
use samebits::tensor_core::buffer::set_cache_limit;
use samebits::{Tensor, on_threads};
use test_support::allocations::{Counting, peak};

#[global_allocator]
static COUNTING: Counting = Counting;

const WIDTH: usize = 16;

/// Returns the most bytes held during both passes over a sequence, on one thread. With `mask`, they
/// compute the gradient of a mask of numbers, too.
fn used(length: usize, dropout_p: f64, is_causal: bool, mask: bool) -> usize {
    let run = || {
        samebits::manual_seed(0);
        let [q, k, v]: [Tensor; 3] = [1, 2, 3].map(|seed| {
            let x = randn_with(&[length, WIDTH], &mut Generator::new(seed)).unwrap();
            x.set_requires_grad(true).unwrap()
        });
        let mask = mask.then(|| {
            let numbers = randn_with(&[length, length], &mut Generator::new(4)).unwrap();
            numbers.set_requires_grad(true).unwrap()
        });
        peak(|| {
            let mask = mask.as_ref();
            let y = scaled_dot_product_attention(&q, &k, &v, mask, dropout_p, is_causal, None);
            y.unwrap().square().unwrap().sum(..).unwrap().backward().unwrap()
        })
    };
    on_threads(Some(1), run).unwrap()
}

#[test]
fn memory_grows_with_the_sequence() {
    set_cache_limit(0);
    for (dropout, is_causal) in [(0.0, false), (0.0, true), (0.5, false), (0.5, true)] {
        let used = |length| used(length, dropout, is_causal, false);
        let [short, middle, long] = [1024, 2048, 4096].map(used);
        let [first, second] = [middle - short, (long - middle) / 2];
        assert!(second <= first + first / 8, "{short}, {middle} and {long} bytes");
        // A hundred numbers of each token and feature, where one matrix of scores has 256.
        assert!(long <= 100 * 4096 * WIDTH * size_of::<f32>(), "{long} bytes");
    }
    // The composition, which the gradient of the mask needs, holds several matrices of scores.
    assert!(used(1024, 0.0, false, true) > 2 * 1024 * 1024 * size_of::<f32>());
}
