//! Scopes of a thread: training or evaluation, and the generator of random numbers.

use std::cell::{Cell, RefCell};

use samebits_rng::{Generator, is_explicit_only};
use samebits_tensor_core::random::RngState;
use samebits_tensor_core::{DType, Determinism, Device, Result, determinism, random};
use scopeguard::guard;

use crate::autocast::{autocast_dtype, with_autocast};
use crate::devices::reach;

/// Runs `f` in training mode on this thread: dropout drops elements, and batch normalisation uses
/// the statistics of the batch and updates the running ones. Outside this scope, layers evaluate.
///
/// Random numbers come from this thread's default generators, set by
/// [`manual_seed`](random::manual_seed), unless [`draw_from`] gives another generator.
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

/// Runs `f` as [`train`] does, with random numbers from `generator`, which advances by what is
/// drawn.
pub fn train_with<R>(generator: &mut Generator, f: impl FnOnce() -> R) -> R {
    draw_from(generator, || train(f))
}

/// Runs `f` in evaluation mode on this thread: the default outside [`train`], for use inside it.
pub fn eval<R>(f: impl FnOnce() -> R) -> R {
    with_training(false, f)
}

/// Returns whether this thread is inside [`train`].
#[doc(alias = "training")]
pub fn is_training() -> bool {
    TRAINING.get()
}

/// Runs `f` with layers drawing from `generator`, for initial values too. The generator advances by
/// what is drawn, also if `f` panics.
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
    let given = Given { generator: generator.clone(), inside: is_explicit_only() };
    let _restored = guard(GENERATOR.replace(Some(given)), |outer| {
        if let Some(moved) = GENERATOR.replace(outer) {
            *generator = moved.generator;
        }
    });
    f()
}

/// Calls `draw` with the generator in force: that of [`draw_from`], else this thread's default
/// generator of `device`. Use it in layers that draw random numbers themselves; `op` names the
/// layer in errors.
///
/// # Errors
///
/// Errors of `draw`. Without a given generator, errors of [`with_default`](random::with_default),
/// for example if this thread was not seeded.
pub fn with_generator<R>(
    op: &'static str,
    device: Device,
    draw: impl FnOnce(&mut Generator) -> Result<R>,
) -> Result<R> {
    reach(device);
    // Clones the generator, so that nothing is borrowed while `draw` runs.
    match GENERATOR.with_borrow(Clone::clone) {
        Some(mut given) if given.inside || !is_explicit_only() => {
            let result = draw(&mut given.generator);
            GENERATOR.set(Some(given));
            result
        }
        _ => random::with_default(op, device, draw)?,
    }
}

/// Calls [`with_generator`] if `draws` is true. Otherwise the call needs no generator: `draw` gets
/// a temporary one, and none advances.
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

/// The generator given to [`draw_from`].
#[derive(Clone)]
struct Given {
    generator: Generator,
    /// True if the generator was given inside a scope without default generators. Code inside such
    /// a scope does not use a generator given outside: a data loader runs in the caller's scope
    /// only if it has no workers, so the samples would depend on the number of workers.
    inside: bool,
}

/// The scopes of a thread, and the positions of its generators, to repeat a computation in them.
#[derive(Clone)]
pub(crate) struct Scopes {
    training: bool,
    generator: Option<Given>,
    /// `None` if the thread has no default generators.
    defaults: Option<RngState>,
    level: Determinism,
    warn_only: bool,
    autocast: Option<DType>,
}

impl Scopes {
    /// Returns those in force.
    pub(crate) fn in_force() -> Scopes {
        Scopes {
            training: is_training(),
            generator: GENERATOR.with_borrow(Clone::clone),
            defaults: random::get_rng_state().ok(),
            level: determinism::required(),
            warn_only: determinism::is_warn_only(),
            autocast: autocast_dtype(),
        }
    }

    /// Runs `f` in these scopes. The generators in force now do not advance.
    pub(crate) fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        let _restored =
            guard(GENERATOR.replace(self.generator.clone()), |outer| GENERATOR.set(outer));
        let f = || {
            if let Some(defaults) = &self.defaults {
                random::set_rng_state(defaults);
            }
            with_autocast(self.autocast, || with_training(self.training, f))
        };
        random::fork_rng(|| match self.warn_only {
            true => determinism::scope_warn_only(self.level, f),
            false => determinism::scope(self.level, f),
        })
    }
}

fn with_training<R>(training: bool, f: impl FnOnce() -> R) -> R {
    let _restored = guard(TRAINING.replace(training), |outer| TRAINING.set(outer));
    f()
}

thread_local! {
    static TRAINING: Cell<bool> = const { Cell::new(false) };
    static GENERATOR: RefCell<Option<Given>> = const { RefCell::new(None) };
}
