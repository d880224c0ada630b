//! Gradient checkpointing: the bits of a plain call, in less memory.

use samebits_autograd::functional::{dropout, randn_with, relu};
use samebits_autograd::nn::{
    self, BatchNorm1d, Checkpoint, Gpt, GptOptions, Layer, Linear, Module, checkpoint,
    checkpoint_all,
};
use samebits_autograd::{
    DType, Error, Gradients, Result, Tensor, backward, gradcheck, gradgradcheck, no_grad,
    sequential,
};
use samebits_rng::Generator;
use samebits_tensor_core::buffer::set_cache_limit;
use samebits_tensor_core::{Determinism, determinism, random};
use test_support::allocations::{Counting, peak};

#[global_allocator]
static COUNTING: Counting = Counting;

fn bits(x: &Tensor) -> Vec<u8> {
    x.to_bytes().unwrap()
}

fn gradients<'a>(found: &Gradients, of: impl IntoIterator<Item = &'a Tensor>) -> Vec<Vec<u8>> {
    of.into_iter().map(|x| bits(found.of(x).expect("a gradient"))).collect()
}

fn drawn(shape: &[usize], seed: u64) -> Tensor {
    let x = randn_with(shape, &mut Generator::new(seed)).unwrap();
    x.set_requires_grad(true).unwrap()
}

/// The shared weight is used twice inside a block and once outside: in any other order of the
/// additions its gradient has other bits.
#[test]
fn a_shared_weight_has_the_bits_of_a_plain_call() {
    let (x, weight) = (drawn(&[7, 5], 1), drawn(&[5, 5], 2));
    let block = |x: &Tensor, weight: &Tensor| -> Result<Tensor> {
        x.matmul(weight)?.tanh()?.matmul(weight)?.mul(x)
    };
    let run = |checkpointed: bool| {
        let mut y = x.matmul(&weight).unwrap();
        for _ in 0..4 {
            let inside = weight.clone();
            y = match checkpointed {
                true => checkpoint(&[&y], move |x| block(&x[0], &inside)),
                false => block(&y, &inside),
            }
            .unwrap();
        }
        let loss = y.matmul(&weight).unwrap().square().unwrap().sum_all().unwrap();
        let found = loss.backward().unwrap();
        (bits(&loss), gradients(&found, [&x, &weight]))
    };
    assert_eq!(run(true), run(false));
}

fn gpt(checkpoint: bool) -> Gpt {
    let options: GptOptions = Gpt::options(31, 16, 4, 3).context(12).dropout(0.25);
    options.checkpoint(checkpoint).init_with(&mut Generator::new(3)).unwrap()
}

/// Two steps, since the second draws after the first.
#[test]
fn a_model_with_dropout_draws_the_same_numbers_and_goes_on_from_there() {
    let tokens = Tensor::new([[3i64, 1, 4, 1, 5], [9, 2, 6, 5, 3]]).unwrap();
    let run = |checkpoint: bool| {
        let model = gpt(checkpoint);
        let step = || {
            let loss = nn::train(|| model.forward(&tokens)).unwrap().square().unwrap();
            let found = loss.sum_all().unwrap().backward().unwrap();
            (bits(&loss), gradients(&found, model.parameters().iter()))
        };
        random::manual_seed(5);
        let default = [step(), step()];
        let mut generator = Generator::new(6);
        let given = nn::draw_from(&mut generator, || [step(), step()]);
        (default, given, generator.next_block(), random::manual_seed(7).next_block())
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn the_backward_pass_runs_in_the_scopes_of_the_call() {
    let x = drawn(&[9], 1);
    random::manual_seed(1);
    let y = determinism::scope(Determinism::NotGuaranteed, || {
        nn::train(|| {
            checkpoint(&[&x], |x| {
                assert!(nn::is_training());
                assert_eq!(determinism::required(), Determinism::NotGuaranteed);
                dropout(&x[0], 0.5)
            })
        })
    });
    let y = y.unwrap();
    let after = random::get_rng_state().unwrap();
    let grad = y.sum_all().unwrap().backward().unwrap().of(&x).unwrap().to_vec::<f32>().unwrap();
    let kept: Vec<bool> = y.to_vec::<f32>().unwrap().iter().map(|&y| y != 0.0).collect();
    assert_eq!(grad.iter().map(|&g| g != 0.0).collect::<Vec<_>>(), kept);
    assert_eq!(random::get_rng_state().unwrap(), after, "the backward pass drew");
}

#[test]
fn running_statistics_are_updated_once() {
    let run = |checkpointed: bool| {
        random::manual_seed(2);
        let block = sequential![Linear::new(5, 5).unwrap(), BatchNorm1d::new(5).unwrap()];
        let model = match checkpointed {
            true => sequential![Checkpoint(block)],
            false => sequential![block],
        };
        let x = drawn(&[6, 5], 4);
        let y = nn::train(|| model.forward(&x)).unwrap();
        let found = y.square().unwrap().sum_all().unwrap().backward().unwrap();
        let state: Vec<_> =
            model.state_dict().into_iter().map(|(name, x)| (name, bits(&x))).collect();
        (bits(&y), gradients(&found, model.parameters().iter()), state)
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn gradients_are_correct_and_can_be_differentiated_again() {
    let x = Tensor::new([0.3f64, -1.2]).unwrap().set_requires_grad(true).unwrap();
    let weight = Tensor::new([1.7f64, 0.4]).unwrap().set_requires_grad(true).unwrap();
    let nested = |inputs: &[Tensor]| -> Result<Tensor> {
        let inner = inputs[1].clone();
        checkpoint(&[&inputs[0]], move |x| {
            let y = x[0].tanh()?.mul(&inner)?;
            let again = inner.clone();
            checkpoint(&[&y], move |y| y[0].exp()?.mul(&again))?.mul(&x[0])
        })
    };
    gradcheck(|x| Ok([nested(x)?]), &[&x, &weight]).unwrap();
    gradgradcheck(|x| Ok([nested(x)?]), &[&x, &weight]).unwrap();
}

#[test]
fn several_results_keep_their_kinds() {
    let x = drawn(&[4], 1);
    let split = |x: &[Tensor]| -> Result<Vec<Tensor>> {
        let constant = x[0].detach();
        Ok(vec![x[0].exp()?, x[0].argmax(0)?, constant, x[0].clone()])
    };
    let found = checkpoint_all(&[&x], split).unwrap();
    let wanted: Vec<bool> = found.iter().map(Tensor::requires_grad).collect();
    assert_eq!(wanted, [true, false, false, true]);
    let ones = || Tensor::ones(&[4], DType::F32).unwrap();
    let sum = |results: &[Tensor]| {
        let grads = backward(&[(&results[3], ones()), (&results[0], ones())], false).unwrap();
        bits(grads.of(&x).unwrap())
    };
    assert_eq!(sum(&found), sum(&split(std::slice::from_ref(&x)).unwrap()));
    // Nothing to differentiate: a plain call.
    let plain = checkpoint_all(&[&x.detach()], split).unwrap();
    assert!(plain.iter().all(|y| !y.requires_grad()));
    let outside = no_grad(|| checkpoint_all(&[&x], split)).unwrap();
    assert!(!outside[0].requires_grad() && outside[3].requires_grad());
}

#[test]
fn other_results_in_the_backward_pass_are_an_error() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let x = drawn(&[4], 1);
    let calls = std::sync::Arc::new(AtomicUsize::new(0));
    let y = checkpoint(&[&x], move |x| {
        let length = 4 - calls.fetch_add(1, Ordering::Relaxed);
        relu(&x[0].narrow(0, 0, length)?)
    });
    let error = y.unwrap().sum_all().unwrap().backward().unwrap_err();
    assert!(matches!(error, Error::InvalidFunction { op: "checkpoint", .. }), "{error}");
    assert!(error.to_string().contains("[(F32, [4])], got [(F32, [3])]"), "{error}");
    let error = checkpoint(&[&x], |x| x[0].narrow(0, 3, 9)).unwrap_err();
    assert!(error.to_string().starts_with("narrow"), "{error}");
}

/// Without checkpointing, memory grows with the depth by all intermediate results of a block; with
/// it, by the block's input alone.
#[test]
fn memory_grows_by_one_tensor_per_block() {
    set_cache_limit(0);
    const ELEMENTS: usize = 1 << 14;
    let x = drawn(&[ELEMENTS], 1);
    let block = |x: &Tensor| (0..10).try_fold(x.clone(), |x, _| x.sin()?.exp()?.tanh());
    let used = |depth: usize, checkpointed: bool| {
        peak(|| {
            let step = |y: Tensor, _| match checkpointed {
                true => checkpoint(&[&y], move |x| block(&x[0])),
                false => block(&y),
            };
            let y = (0..depth).try_fold(x.clone(), step).unwrap();
            y.sum_all().unwrap().backward().unwrap()
        })
    };
    let bytes = 4 * ELEMENTS;
    let per_block = |checkpointed| (used(9, checkpointed) - used(1, checkpointed)) / 8 / bytes;
    assert!(per_block(false) >= 30, "{} tensors", per_block(false));
    assert!(per_block(true) <= 3, "{} tensors", per_block(true));
}
