//! What a forward pass or an initialisation finds around it: whether it trains, and where random
//! numbers come from.

use std::cell::{Cell, RefCell};

use samebits_rng::{Generator, is_explicit_only};
use samebits_tensor_core::{Device, Result, random};

use crate::devices::reach;

/// Runs `f` while training, on this thread: dropout drops, and batch normalisation uses and follows
/// the statistics of the batch. Outside, layers evaluate.
///
/// Random numbers come from this thread's default generators, those of
/// [`manual_seed`](random::manual_seed), unless [`draw_from`] gives another.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::Tensor;
/// use samebits::nn::{self, Dropout, Layer};
///
/// samebits_tensor_core::random::manual_seed(0);
/// let x = Tensor::ones(&[8], samebits_tensor_core::DType::F32)?;
/// let dropout = Dropout::new(0.5);
/// assert_eq!(dropout.forward(&x)?.to_vec::<f32>()?, [1.0; 8]);
/// let y = nn::train(|| dropout.forward(&x))?;
/// assert!(y.to_vec::<f32>()?.iter().all(|&y| y == 0.0 || y == 2.0));
/// # Ok::<(), samebits::Error>(())
/// ```
pub fn train<R>(f: impl FnOnce() -> R) -> R {
    with_training(true, f)
}

/// [`train`] with random numbers from `generator`, which moves on by what is drawn.
pub fn train_with<R>(generator: &mut Generator, f: impl FnOnce() -> R) -> R {
    draw_from(generator, || train(f))
}

/// Runs `f` while evaluating, on this thread: what there is outside [`train`], for use inside.
pub fn eval<R>(f: impl FnOnce() -> R) -> R {
    with_training(false, f)
}

/// Whether this thread is inside [`train`].
pub fn is_training() -> bool {
    TRAINING.get()
}

/// Runs `f` with the random numbers of layers, their initial values too, from `generator`, which
/// moves on by what is drawn, also if `f` panics.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::nn::{self, Linear};
/// use samebits_rng::Generator;
///
/// let mut generator = Generator::new(7);
/// let (a, b) = nn::draw_from(&mut generator, || {
///     Ok::<_, samebits::Error>((Linear::new(3, 4)?, Linear::new(4, 2)?))
/// })?;
/// let again = Linear::options(3, 4).init_with(&mut Generator::new(7))?;
/// assert_eq!(a.weight.to_bytes()?, again.weight.to_bytes()?);
/// # Ok::<(), samebits::Error>(())
/// ```
pub fn draw_from<R>(generator: &mut Generator, f: impl FnOnce() -> R) -> R {
    struct Restore<'a> {
        generator: &'a mut Generator,
        outer: Option<Given>,
    }
    impl Drop for Restore<'_> {
        fn drop(&mut self) {
            if let Some(moved) = GENERATOR.replace(self.outer.take()) {
                *self.generator = moved.generator;
            }
        }
    }
    let given = Given { generator: generator.clone(), inside: is_explicit_only() };
    let outer = GENERATOR.replace(Some(given));
    let _restore = Restore { generator, outer };
    f()
}

/// Calls `draw` with the generator in force: that of [`draw_from`], else this thread's default
/// generator of `device`. For layers with random numbers of their own; `op` names the layer in
/// errors.
///
/// # Errors
///
/// What `draw` returns; without a given generator, what
/// [`with_default`](random::with_default) returns, for example if nobody seeded this thread.
pub fn with_generator<R>(
    op: &'static str,
    device: Device,
    draw: impl FnOnce(&mut Generator) -> Result<R>,
) -> Result<R> {
    reach(device);
    // A copy, so that nothing is borrowed while `draw` runs.
    match GENERATOR.with_borrow(Clone::clone) {
        Some(mut given) if given.inside || !is_explicit_only() => {
            let result = draw(&mut given.generator);
            GENERATOR.set(Some(given));
            result
        }
        _ => random::with_default(op, device, draw)?,
    }
}

/// [`with_generator`] if `draws`. A call that draws nothing moves no generator and needs none: `draw`
/// gets one that is forgotten.
pub(crate) fn with_generator_if<R>(
    draws: bool,
    op: &'static str,
    device: Device,
    draw: impl FnOnce(&mut Generator) -> Result<R>,
) -> Result<R> {
    match draws {
        true => with_generator(op, device, draw),
        false => draw(&mut Generator::new(0)),
    }
}

/// The generator of [`draw_from`].
#[derive(Clone)]
struct Given {
    generator: Generator,
    /// Whether it was given where there are no default generators. If not, it is none there either:
    /// a data loader's samples are loaded inside the caller's scope only if there are no workers.
    inside: bool,
}

fn with_training<R>(training: bool, f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            TRAINING.set(self.0);
        }
    }
    let _restore = Restore(TRAINING.replace(training));
    f()
}

thread_local! {
    static TRAINING: Cell<bool> = const { Cell::new(false) };
    static GENERATOR: RefCell<Option<Given>> = const { RefCell::new(None) };
}
