//! The default generators: one per device and thread, seeded by one call.
//!
//! If several threads drew from one shared generator, each would get the numbers that the others
//! left, and the run would not repeat. So the default generators belong to the thread that called
//! [`manual_seed`]. Another thread gets its own by seeding, or better, receives a generator that
//! was split off. Inside [`explicit_only`](samebits_rng::explicit_only), as in the functions that a
//! data loader calls, there are none: draws are errors, and seeding reaches only the hooks.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use samebits_rng::{Generator, is_explicit_only};
use scopeguard::guard;

use crate::{Determinism, Device, Error, Result, determinism};

/// A seed: 64 bits, written as an integer with or without a sign.
pub trait Seed {
    /// Returns the bits of the seed; a negative number in two's complement.
    fn bits(self) -> u64;
}

macro_rules! seeds {
    ($($integer:ident),*) => {$(
        impl Seed for $integer {
            fn bits(self) -> u64 {
                self as u64
            }
        }
    )*};
}
seeds!(u64, i64, u32, i32);

/// Seeds the default generators of every device for this thread, and calls every registered seeding
/// hook. Returns the generator of the CPU.
///
/// # Determinism
///
/// The CPU and `cuda:0` draw the same numbers from one seed; `cuda:1` draws others. The generator
/// of a device is `Generator::new(seed).derive("default")` on the stream of the device's ordinal.
/// So a program that uses `Generator::new` with the same seed draws other numbers.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::random;
///
/// random::manual_seed(7);
/// assert_eq!(random::initial_seed(), Some(7));
/// random::manual_seed(-1);
/// assert_eq!(random::initial_seed(), Some(u64::MAX)); // as in PyTorch
/// ```
pub fn manual_seed(seed: impl Seed) -> Generator {
    let seed = seed.bits();
    SEEDED_SOMEWHERE.store(true, Ordering::Relaxed);
    set_defaults(|defaults| *defaults = Defaults { seed: Some(seed), generators: BTreeMap::new() });
    let hooks: Vec<Hook> = HOOKS.lock().values().cloned().collect();
    for hook in hooks {
        hook(seed);
    }
    default_generator(seed, Device::Cpu)
}

/// Seeds the default generator of one device for this thread, and calls no hook: PyTorch's
/// `torch.cuda.manual_seed`. It draws the same numbers as after [`manual_seed`] with this seed; the
/// generators of other devices are unchanged.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::{Device, random};
///
/// random::manual_seed(7);
/// let draw = || random::with_default("draw", Device::Cpu, |generator| generator.next_block());
/// let first = draw()?;
/// random::manual_seed_device(Device::Cuda(0), 8);
/// assert_ne!(draw()?, first);
/// random::manual_seed_device(Device::Cpu, 7);
/// assert_eq!(draw()?, first);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
pub fn manual_seed_device(device: Device, seed: impl Seed) {
    let generator = default_generator(seed.bits(), device);
    set_defaults(|defaults| {
        defaults.generators.insert(device, generator);
    });
}

/// Seeds the default generators of this thread from the operating system and returns the seed, so
/// that the run can be repeated.
pub fn seed() -> u64 {
    let seed = entropy();
    manual_seed(seed);
    seed
}

/// Returns the seed that [`manual_seed`] gave this thread, if any.
pub fn initial_seed() -> Option<u64> {
    if is_explicit_only() {
        return None;
    }
    DEFAULTS.with_borrow(|defaults| defaults.seed)
}

/// Registers a function that [`manual_seed`] calls with the seed, for a library with its own
/// generators. A second hook of the same name replaces the first.
///
/// Hooks are called on the thread that seeds, in the order of their names.
pub fn register_seed_hook(name: &str, hook: impl Fn(u64) + Send + Sync + 'static) {
    HOOKS.lock().insert(name.to_owned(), Arc::new(hook));
}

/// Removes a seeding hook.
pub fn remove_seed_hook(name: &str) {
    HOOKS.lock().remove(name);
}

/// Draws from this thread's default generator of `device`. `draw` gets the generator; the next draw
/// starts after the blocks it reserves.
///
/// # Errors
///
/// [`Error::ExplicitOnly`] inside [`explicit_only`](samebits_rng::explicit_only). At
/// [`Determinism::RunToRun`] and above: [`Error::Unseeded`] if no thread was seeded,
/// [`Error::ForeignThread`] if another thread was and this one was not. At
/// [`Determinism::NotGuaranteed`] such a thread is seeded from the operating system.
pub fn with_default<R>(
    op: &'static str,
    device: Device,
    draw: impl FnOnce(&mut Generator) -> R,
) -> Result<R> {
    if is_explicit_only() {
        return Err(Error::ExplicitOnly { op });
    }
    // Takes the generator out during the draw, so that `draw` may draw again.
    let mut generator = match DEFAULTS.with_borrow(|defaults| defaults.generator(device)) {
        Some(generator) => generator,
        None if determinism::required() >= Determinism::RunToRun => {
            return Err(if SEEDED_SOMEWHERE.load(Ordering::Relaxed) {
                Error::ForeignThread { op }
            } else {
                Error::Unseeded { op }
            });
        }
        None => {
            let seed = entropy();
            DEFAULTS.with_borrow_mut(|defaults| defaults.seed = Some(seed));
            default_generator(seed, device)
        }
    };
    let result = draw(&mut generator);
    DEFAULTS.with_borrow_mut(|defaults| defaults.generators.insert(device, generator));
    Ok(result)
}

/// The positions of this thread's default generators.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RngState {
    seed: Option<u64>,
    generators: Vec<(Device, Generator)>,
}

/// Returns the state of this thread's default generators of all devices.
///
/// # Errors
///
/// [`Error::Unseeded`] if this thread was not seeded, [`Error::ExplicitOnly`] inside
/// [`explicit_only`](samebits_rng::explicit_only).
pub fn get_rng_state() -> Result<RngState> {
    if is_explicit_only() {
        return Err(Error::ExplicitOnly { op: "get_rng_state" });
    }
    DEFAULTS.with_borrow(|defaults| {
        if defaults.seed.is_none() && defaults.generators.is_empty() {
            return Err(Error::Unseeded { op: "get_rng_state" });
        }
        Ok(RngState {
            seed: defaults.seed,
            generators: defaults.generators.iter().map(|(d, g)| (*d, g.clone())).collect(),
        })
    })
}

/// Sets this thread's default generators to the positions in `state`.
pub fn set_rng_state(state: &RngState) {
    SEEDED_SOMEWHERE.store(true, Ordering::Relaxed);
    let generators = state.generators.iter().cloned().collect();
    set_defaults(|defaults| *defaults = Defaults { seed: state.seed, generators });
}

/// Runs `f` and restores this thread's default generators to their positions before, even if `f`
/// panics.
pub fn fork_rng<R>(f: impl FnOnce() -> R) -> R {
    let _restored = guard(DEFAULTS.with_borrow(Clone::clone), |before| DEFAULTS.set(before));
    f()
}

#[derive(Clone, Debug, Default)]
struct Defaults {
    /// The seed of all devices that have no generator yet.
    seed: Option<u64>,
    generators: BTreeMap<Device, Generator>,
}

impl Defaults {
    /// Returns the generator of `device`, if it was seeded.
    fn generator(&self, device: Device) -> Option<Generator> {
        let own = self.generators.get(&device).cloned();
        own.or_else(|| Some(default_generator(self.seed?, device)))
    }
}

/// Returns the default generator of `device`. The derived name keeps it apart from
/// `Generator::new(seed)`.
fn default_generator(seed: u64, device: Device) -> Generator {
    Generator::new(seed).derive("default").with_stream(device.stream())
}

/// Changes this thread's default generators, if it may have any.
fn set_defaults(change: impl FnOnce(&mut Defaults)) {
    if !is_explicit_only() {
        DEFAULTS.with_borrow_mut(change);
    }
}

thread_local! {
    static DEFAULTS: RefCell<Defaults> =
        const { RefCell::new(Defaults { seed: None, generators: BTreeMap::new() }) };
}

static SEEDED_SOMEWHERE: AtomicBool = AtomicBool::new(false);

type Hook = Arc<dyn Fn(u64) + Send + Sync>;

static HOOKS: Mutex<BTreeMap<String, Hook>> = Mutex::new(BTreeMap::new());

/// Returns a seed that differs from run to run.
fn entropy() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library seeds its hasher from the operating system's random numbers.
    std::hash::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(device: Device) -> Result<[u32; 4]> {
        with_default("test", device, Generator::next_block)
    }

    #[test]
    fn one_call_seeds_every_device_and_hook() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let log = heard.clone();
        register_seed_hook("test", move |seed| log.lock().push(seed));
        manual_seed(5);
        remove_seed_hook("test");
        assert!(heard.lock().contains(&5));
        let cpu = next(Device::Cpu).unwrap();
        assert_eq!(next(Device::Cuda(0)).unwrap(), cpu);
        assert_ne!(next(Device::Cuda(1)).unwrap(), cpu);
        assert_ne!(next(Device::Cpu).unwrap(), cpu);
        manual_seed(5);
        assert_eq!(next(Device::Cpu).unwrap(), cpu);
    }

    #[test]
    fn one_device_is_seeded_alone() {
        manual_seed(5);
        let [first, second] = [0, 1].map(|i| next(Device::Cuda(i)).unwrap());
        let cpu = next(Device::Cpu).unwrap();
        manual_seed_device(Device::Cuda(1), 5);
        assert_eq!(next(Device::Cuda(1)), Ok(second));
        assert_ne!(next(Device::Cuda(0)), Ok(first));
        assert_ne!(next(Device::Cpu), Ok(cpu));
        // On a thread that seeded nothing else.
        std::thread::spawn(move || {
            manual_seed_device(Device::Cuda(1), 5);
            assert_eq!(initial_seed(), None);
            let state = get_rng_state().unwrap();
            assert_eq!(next(Device::Cuda(1)), Ok(second));
            assert_eq!(next(Device::Cpu), Err(Error::ForeignThread { op: "test" }));
            set_rng_state(&state);
            assert_eq!(next(Device::Cuda(1)), Ok(second));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_generator_of_the_same_seed_draws_other_numbers() {
        let mut returned = manual_seed(5);
        let block = next(Device::Cpu).unwrap();
        assert_eq!(returned.next_block(), block);
        assert_ne!(Generator::new(5).next_block(), block);
        assert_ne!(Generator::new(5).derive("default").fold_in(0).next_block(), block);
    }

    #[test]
    fn another_thread_is_refused_unless_it_may_differ() {
        manual_seed(5);
        std::thread::spawn(|| {
            assert_eq!(next(Device::Cpu), Err(Error::ForeignThread { op: "test" }));
            determinism::scope(Determinism::NotGuaranteed, || assert!(next(Device::Cpu).is_ok()));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn states_are_saved_restored_and_forked() {
        manual_seed(9);
        next(Device::Cpu).unwrap();
        let state = get_rng_state().unwrap();
        let expected = next(Device::Cpu).unwrap();
        set_rng_state(&state);
        assert_eq!(fork_rng(|| next(Device::Cpu).unwrap()), expected);
        let caught = std::panic::catch_unwind(|| {
            fork_rng(|| {
                manual_seed(1);
                panic!("planted")
            })
        });
        assert!(caught.is_err());
        assert_eq!(next(Device::Cpu).unwrap(), expected);
    }
}
