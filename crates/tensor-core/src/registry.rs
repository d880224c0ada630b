//! The registry of kernels: the variants of each operation, and the level of each.
//!
//! An operation is a value that implements [`Op`]: it holds its inputs and parameters and turns
//! them into a checked plan. A kernel crate registers [`Kernel`]s for it. [`dispatch`] plans the
//! operation, reads the level in force, and runs the first kernel that meets it: kernels are
//! registered fastest first. If none meets it, the call is an error; there is no silent downgrade.
//!
//! User code registers its own operations in the same way, and the same rules apply to them.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Write as _};
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};

use parking_lot::{Mutex, RwLock};
use samebits_numerics::{fpenv, simd};
use samebits_rng::Generator;
use smallvec::SmallVec;
use tracing::subscriber::NoSubscriber;

use crate::determinism::{self, Policy};
use crate::device::DeviceKind;
use crate::observe::{self, Call};
use crate::rerun::{self, Output};
use crate::{DType, Determinism, Device, Error, Result, Tensor};

pub use crate::pass::{KernelInfo, Pass};

/// An operation: its inputs, its parameters, and the plan that is the same on every device.
pub trait Op: Send + Sync + 'static {
    /// The operation's name: PyTorch's name if it has one.
    const NAME: &'static str;
    /// The pass: result or gradient.
    const PASS: Pass = Pass::Forward;
    /// The outcome of the checks, for the kernels: a geometry, the shape of the result, or `()`.
    type Plan;
    /// The type of the result.
    type Output: Output;

    /// Calls `visit` with each input tensor; all must be on one device.
    /// [`inputs!`](crate::inputs) declares them.
    fn each_input<'a>(&'a self, visit: &mut dyn FnMut(&'a Tensor));

    /// Returns the input tensors.
    fn inputs(&self) -> Vec<&Tensor> {
        let mut inputs = Vec::new();
        self.each_input(&mut |input| inputs.push(input));
        inputs
    }

    /// Returns the arguments other than tensors, by name, for records of the call.
    /// [`parameters!`](crate::parameters) declares them.
    fn parameters(&self) -> Vec<(&'static str, &dyn fmt::Debug)> {
        Vec::new()
    }

    /// Returns its generator, at the start of the draw, if it draws.
    fn generator(&self) -> Option<&Generator> {
        None
    }

    /// Returns the device to run on: that of the first input. An operation without inputs overrides
    /// this.
    fn device(&self) -> Device {
        first_input(self).map_or(Device::Cpu, Tensor::device)
    }

    /// Returns the element type by which a kernel is chosen: that of the first input. An operation
    /// without inputs overrides this.
    fn dtype(&self) -> DType {
        first_input(self).map_or(DType::F32, Tensor::dtype)
    }

    /// Checks shapes, types and parameters. This is the only check of a call: kernels rely on it,
    /// and take computed sizes from the plan.
    ///
    /// # Errors
    ///
    /// Any [`enum@Error`] that names the operation and both sides of a mismatch.
    fn plan(&self) -> Result<Self::Plan>;
}

fn first_input<O: Op + ?Sized>(op: &O) -> Option<&Tensor> {
    let mut first = None;
    op.each_input(&mut |input| first = first.or(Some(input)));
    first
}

/// A field of an operation that holds input tensors: one, an optional one, or several.
pub trait Inputs {
    /// Calls `visit` with each tensor.
    fn each<'a>(&'a self, visit: &mut dyn FnMut(&'a Tensor));
}

impl Inputs for Tensor {
    fn each<'a>(&'a self, visit: &mut dyn FnMut(&'a Tensor)) {
        visit(self);
    }
}

impl Inputs for Option<Tensor> {
    fn each<'a>(&'a self, visit: &mut dyn FnMut(&'a Tensor)) {
        self.iter().for_each(visit);
    }
}

impl Inputs for Vec<Tensor> {
    fn each<'a>(&'a self, visit: &mut dyn FnMut(&'a Tensor)) {
        self.iter().for_each(visit);
    }
}

/// Declares [`Op::each_input`]: the fields of the operation that are [`Inputs`], in this order.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::{Op, Result, Tensor, inputs};
///
/// struct Scale {
///     x: Tensor,
///     factor: Option<Tensor>,
/// }
///
/// impl Op for Scale {
///     const NAME: &'static str = "scale";
///     type Plan = ();
///     type Output = Tensor;
///
///     inputs![x, factor];
///
///     fn plan(&self) -> Result<()> {
///         Ok(())
///     }
/// }
/// ```
#[macro_export]
macro_rules! inputs {
    () => {
        fn each_input<'a>(&'a self, _: &mut dyn FnMut(&'a $crate::Tensor)) {}
    };
    ($($field:tt $(. $part:ident)*),+ $(,)?) => {
        fn each_input<'a>(&'a self, visit: &mut dyn FnMut(&'a $crate::Tensor)) {
            $($crate::registry::Inputs::each(&self.$field $(. $part)*, visit);)+
        }
    };
}

/// Declares [`Op::parameters`]: the fields of the operation that are neither tensors nor its
/// generator.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::{Op, Result, Tensor, inputs, parameters};
///
/// struct Scale {
///     x: Tensor,
///     factor: f64,
/// }
///
/// impl Op for Scale {
///     const NAME: &'static str = "scale";
///     type Plan = ();
///     type Output = Tensor;
///
///     inputs![x];
///     parameters![factor];
///
///     fn plan(&self) -> Result<()> {
///         Ok(())
///     }
/// }
///
/// let scale = Scale { x: Tensor::scalar(1.0f32), factor: 0.5 };
/// let parameters = scale.parameters();
/// assert_eq!(format!("{parameters:?}"), r#"[("factor", 0.5)]"#);
/// ```
#[macro_export]
macro_rules! parameters {
    ($($field:ident $(. $part:ident)*),+ $(,)?) => {
        fn parameters(&self) -> Vec<(&'static str, &dyn ::std::fmt::Debug)> {
            vec![$((stringify!($field $(. $part)*), &self.$field $(. $part)*)),+]
        }
    };
}

/// One way to compute an operation on one kind of device.
pub struct Kernel<O: Op> {
    /// The variant's name, unique per operation, device and type.
    pub variant: &'static str,
    /// The kind of device it runs on.
    pub device: DeviceKind,
    /// The element types ([`Op::dtype`]) that it supports.
    pub dtypes: &'static [DType],
    /// The level it promises.
    pub level: Determinism,
    /// The reason why the level holds, in one line.
    pub why: &'static str,
    /// Returns true if this variant can compute the call. A variant that is race-free only for some
    /// arguments is registered twice, with the higher level for those arguments.
    pub applies: fn(&O, &O::Plan) -> bool,
    /// Computes an operation from its plan.
    pub run: fn(&O, &O::Plan) -> Result<O::Output>,
}

impl<O: Op> Kernel<O> {
    /// Returns a host kernel that computes any call at [`Determinism::Portable`].
    pub const fn portable(
        variant: &'static str,
        dtypes: &'static [DType],
        why: &'static str,
        run: fn(&O, &O::Plan) -> Result<O::Output>,
    ) -> Kernel<O> {
        Kernel {
            variant,
            device: DeviceKind::Cpu,
            dtypes,
            level: Determinism::Portable,
            why,
            applies: |_, _| true,
            run,
        }
    }

    /// Returns a host kernel that computes any call, without a promise on its bits.
    pub const fn fast(
        variant: &'static str,
        dtypes: &'static [DType],
        why: &'static str,
        run: fn(&O, &O::Plan) -> Result<O::Output>,
    ) -> Kernel<O> {
        let mut kernel = Kernel::portable(variant, dtypes, why, run);
        kernel.level = Determinism::NotGuaranteed;
        kernel
    }

    fn info(&self) -> KernelInfo {
        KernelInfo {
            op: O::NAME,
            pass: O::PASS,
            device: self.device,
            dtypes: self.dtypes,
            variant: self.variant,
            level: self.level,
            why: self.why,
        }
    }
}

impl<O: Op> fmt::Debug for Kernel<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({} {} on {}, {})", O::NAME, self.variant, self.device, self.level)
    }
}

/// Adds `kernel` to the registry, after those already there: register the fastest first.
///
/// # Panics
///
/// If the same variant is already registered for this operation, device and type: a report could
/// not tell the two apart.
pub fn register<O: Op>(kernel: Kernel<O>) {
    add(&mut REGISTRY.write(), TypeId::of::<O>(), kernel.info(), Box::new(kernel), None);
}

/// A form of a kernel that computes several calls at once, all of one device and type: [`Kernel::run`]
/// for each of them, with the same bits.
pub type RunAll<O> = fn(&[(&O, &<O as Op>::Plan)]) -> Result<Vec<<O as Op>::Output>>;

/// Adds `kernel` as [`register`] does, with a form that [`dispatch_all`] uses for several calls.
///
/// # Panics
///
/// As [`register`].
pub fn register_for_several<O: Op>(kernel: Kernel<O>, run_all: RunAll<O>) {
    let (operation, info) = (TypeId::of::<O>(), kernel.info());
    add(&mut REGISTRY.write(), operation, info, Box::new(kernel), Some(Box::new(run_all)));
}

/// Adds `kernels` to the registry, unless the operation has kernels already. Calls from several
/// threads add them once.
///
/// # Panics
///
/// If two of them are the same variant for one device and type.
pub fn register_if_none<O: Op>(kernels: impl FnOnce() -> Vec<Kernel<O>>) {
    let operation = TypeId::of::<O>();
    if REGISTRY.read().contains_key(&operation) {
        return;
    }
    let kernels = kernels();
    let mut registry = REGISTRY.write();
    if !registry.contains_key(&operation) {
        for kernel in kernels {
            add(&mut registry, operation, kernel.info(), Box::new(kernel), None);
        }
    }
}

/// Adds a kernel; the part of [`register`] that does not depend on the operation's type.
fn add(registry: &mut Registry, op: TypeId, info: KernelInfo, kernel: Held, run_all: Option<Held>) {
    let kernels = Arc::make_mut(registry.entry(op).or_default());
    let clash = kernels.iter().any(|old| {
        old.info.variant == info.variant
            && old.info.device == info.device
            && old.info.dtypes.iter().any(|dtype| info.dtypes.contains(dtype))
    });
    assert!(
        !clash,
        "{} {} on {} for {:?} is registered twice",
        info.op, info.variant, info.device, info.dtypes
    );
    kernels.push(Arc::new(Registered { info, runs: AtomicU64::new(0), kernel, run_all }));
}

/// Plans `op` and runs the fastest kernel that meets the level in force on this thread.
///
/// # Determinism
///
/// The result has the promise of the level in force. Kernels run with round to nearest and
/// subnormals kept, whatever the caller set.
///
/// A result may lie in memory as an operand does: call [`contiguous`](crate::Tensor::contiguous) before
/// [`as_slice`](crate::Tensor::as_slice).
///
/// # Errors
///
/// The errors of [`Op::plan`]; [`Error::DeviceMismatch`]; [`Error::LevelUnavailable`] if no variant
/// that can compute this call meets the level, unless in warn-only mode; [`Error::NoKernel`];
/// [`Error::RerunDiffers`] in re-run mode; [`Error::Observer`] if an observer returns an error.
#[track_caller]
pub fn dispatch<O: Op>(op: &O) -> Result<O::Output> {
    dispatch_with(op, determinism::policy(), None)
}

/// Runs [`dispatch`] with `level` required for this one call.
///
/// # Errors
///
/// As [`dispatch`].
#[track_caller]
pub fn dispatch_at<O: Op>(op: &O, level: Determinism) -> Result<O::Output> {
    dispatch_with(op, Policy { level, warn_only: false }, None)
}

/// Runs [`dispatch`] with the named variant, whatever its level, for tests and benchmarks.
///
/// # Errors
///
/// As [`dispatch`]; [`Error::NoKernel`] if the variant does not exist or cannot compute this call.
#[track_caller]
pub fn dispatch_variant<O: Op>(op: &O, variant: &str) -> Result<O::Output> {
    let any = Policy { level: Determinism::NotGuaranteed, warn_only: false };
    dispatch_with(op, any, Some(variant))
}

/// Returns true if [`dispatch`] would find a kernel for this call at the level in force. Functions
/// use it for operations that can also be composed of others.
pub fn is_available<O: Op>(op: &O) -> bool {
    let caller = Location::caller();
    op.plan().is_ok_and(|plan| choose(op, &plan, determinism::policy(), None, caller).is_ok())
}

/// Returns every registered kernel and how often it has run in this process, sorted by operation,
/// pass, device and then from fastest to slowest.
pub fn kernels() -> Vec<(KernelInfo, u64)> {
    let registry = REGISTRY.read();
    // The order of types changes from build to build, and two of them may share a name.
    let mut entries: Vec<_> = registry.values().collect();
    entries.sort_by_key(|kernels| kernels.first().map(|kernel| kernel.info.variant));
    let mut all: Vec<_> = entries
        .into_iter()
        .flat_map(|kernels| kernels.iter())
        .map(|kernel| (kernel.info, kernel.runs.load(Ordering::Relaxed)))
        .collect();
    all.sort_by_key(|(info, _)| (info.op, info.pass, info.device));
    all
}

/// A value whose type depends on the operation.
type Held = Box<dyn Any + Send + Sync>;

struct Registered {
    info: KernelInfo,
    runs: AtomicU64,
    /// The [`Kernel`] of the operation whose type is the key.
    kernel: Held,
    /// Its [`RunAll`], if it has one.
    run_all: Option<Held>,
}

impl Registered {
    fn kernel<O: Op>(&self) -> &Kernel<O> {
        self.kernel.downcast_ref().expect("keyed by its own type")
    }

    fn run_all<O: Op>(&self) -> Option<RunAll<O>> {
        self.run_all.as_ref().map(|run| *run.downcast_ref().expect("keyed by its own type"))
    }
}

/// The kernels of each operation, by its type.
type Registry = BTreeMap<TypeId, Arc<Vec<Arc<Registered>>>>;

static REGISTRY: RwLock<Registry> = RwLock::new(BTreeMap::new());

/// Operations and call sites that have already been warned about a missing level.
static WARNED: Mutex<BTreeSet<Site>> = Mutex::new(BTreeSet::new());

type Site = (&'static str, Pass, &'static Location<'static>);

/// Ensures that a repaired floating-point mode (changed by another library) is reported once.
static REPORT_REPAIR: Once = Once::new();

/// Code that does not depend on the operation's type is in separate functions: this one is compiled
/// for each operation.
#[track_caller]
fn dispatch_with<O: Op>(op: &O, policy: Policy, variant: Option<&str>) -> Result<O::Output> {
    let caller = Location::caller();
    let result = fpenv::ieee(|| {
        check_environment(O::NAME)?;
        check_devices(O::NAME, &|visit| op.each_input(visit))?;
        let plan = op.plan()?;
        let chosen = choose(op, &plan, policy, variant, caller)?;
        let (KernelInfo { variant, level, .. }, kernel) = (chosen.info, chosen.kernel::<O>());
        trace(O::NAME, variant, level);
        let run = || {
            chosen.runs.fetch_add(1, Ordering::Relaxed);
            (kernel.run)(op, &plan)
        };
        let output = run()?;
        check_again(&chosen, &output, &run, &|| op.inputs())?;
        tell(op, &output, &chosen, policy, caller)?;
        Ok(output)
    });
    if fpenv::was_repaired() {
        report_repair(O::NAME, caller);
    }
    result.map_err(|error: Error| error.called(O::NAME))
}

/// Plans and runs operations of one kind as [`dispatch`] does each of them, in the same bits. A kernel
/// that has a form for several calls computes those of one device and type together. Observers see the
/// calls in their order, after all are computed.
///
/// # Errors
///
/// Those of [`dispatch`], of the first call that fails.
#[track_caller]
pub fn dispatch_all<O: Op>(ops: &[O]) -> Result<Vec<O::Output>> {
    let (policy, caller) = (determinism::policy(), Location::caller());
    let result = fpenv::ieee(|| {
        check_environment(O::NAME)?;
        let calls = ops.iter().map(|op| {
            check_devices(O::NAME, &|visit| op.each_input(visit))?;
            let plan = op.plan()?;
            let chosen = choose(op, &plan, policy, None, caller)?;
            Ok((op, plan, chosen))
        });
        let calls = calls.collect::<Result<Vec<_>>>()?;
        let mut outputs: Vec<Option<O::Output>> = ops.iter().map(|_| None).collect();
        for first in 0..calls.len() {
            if outputs[first].is_some() {
                continue;
            }
            let (op, _, chosen) = &calls[first];
            let (kernel, run_all) = (chosen.kernel::<O>(), chosen.run_all::<O>());
            let is_like = |other: &(&O, O::Plan, Arc<Registered>)| {
                let alike = (other.0.device(), other.0.dtype()) == (op.device(), op.dtype());
                run_all.is_some() && alike && Arc::ptr_eq(&other.2, chosen)
            };
            let rest = (first + 1..calls.len()).filter(|&other| is_like(&calls[other]));
            let places: SmallVec<[usize; 1]> = [first].into_iter().chain(rest).collect();
            let together: SmallVec<[_; 1]> =
                places.iter().map(|&at| (calls[at].0, &calls[at].1)).collect();
            trace(O::NAME, chosen.info.variant, chosen.info.level);
            let run = || {
                chosen.runs.fetch_add(places.len() as u64, Ordering::Relaxed);
                match (run_all, &together[..]) {
                    (Some(run_all), [_, _, ..]) => run_all(&together),
                    _ => together.iter().map(|(op, plan)| (kernel.run)(op, plan)).collect(),
                }
            };
            let found = run()?;
            let inputs = || together.iter().flat_map(|(op, _)| op.inputs()).collect();
            check_again(chosen, &found, &run, &inputs)?;
            for (place, output) in places.into_iter().zip(found) {
                outputs[place] = Some(output);
            }
        }
        let outputs: Vec<O::Output> = outputs.into_iter().flatten().collect();
        for ((op, _, chosen), output) in calls.iter().zip(&outputs) {
            tell(*op, output, chosen, policy, caller)?;
        }
        Ok(outputs)
    });
    if fpenv::was_repaired() {
        report_repair(O::NAME, caller);
    }
    result.map_err(|error: Error| error.called(O::NAME))
}

/// In re-run mode, runs a kernel again and compares. `NotGuaranteed` kernels need not repeat.
fn check_again<'a, R: Output>(
    chosen: &Registered,
    output: &R,
    run: &dyn Fn() -> Result<R>,
    inputs: &dyn Fn() -> Vec<&'a Tensor>,
) -> Result<()> {
    if chosen.info.level != Determinism::NotGuaranteed
        && rerun::times() > 1
        && let Some(difference) = rerun::difference(output, run)?
    {
        return Err(difference.error(&chosen.info, &inputs()));
    }
    Ok(())
}

/// Tells observers of a call.
fn tell<O: Op>(
    op: &O,
    output: &O::Output,
    chosen: &Registered,
    policy: Policy,
    caller: &'static Location<'static>,
) -> Result<()> {
    if !observe::is_on() {
        return Ok(());
    }
    let KernelInfo { variant, level, .. } = chosen.info;
    observe::tell(O::NAME, &|observer| {
        let mut outputs = Vec::new();
        output.tensors(&mut outputs);
        observer.observe(&Call {
            op: O::NAME,
            pass: O::PASS,
            phase: observe::phase(),
            inputs: &op.inputs(),
            outputs: &outputs,
            parameters: &op.parameters(),
            generator: op.generator(),
            required: policy.level,
            level,
            variant,
            caller,
        })
    })
}

fn trace(op: &'static str, variant: &'static str, level: Determinism) {
    tracing::trace!(op, variant, %level, "dispatch");
}

fn report_repair(op: &'static str, caller: &Location<'_>) {
    REPORT_REPAIR.call_once(|| {
        tracing::warn!(
            op,
            %caller,
            "a thread flushed subnormals to zero or did not round to nearest: some library \
             has changed its floating-point mode. Operations restore IEEE arithmetic while \
             they run; other code on that thread does not."
        );
    });
}

/// Checks the environment variables, which would otherwise be ignored silently: a misspelt
/// instruction set costs speed, and a misspelt number of runs compares nothing.
fn check_environment(op: &'static str) -> Result<()> {
    let invalid =
        |variable, found, expected| Error::InvalidVariable { op, variable, found, expected };
    if let Some(found) = simd::unknown_request() {
        return Err(invalid("SAMEBITS_SIMD", found, "portable, avx2 or avx512"));
    }
    if let Some(found) = rerun::unknown_request() {
        return Err(invalid(rerun::VARIABLE, found, "a number of runs from 1"));
    }
    Ok(())
}

/// The function [`Op::each_input`] of an operation.
type EachInput<'a> = dyn Fn(&mut dyn FnMut(&'a Tensor)) + 'a;

fn check_devices<'a>(op: &'static str, each_input: &EachInput<'a>) -> Result<()> {
    let (mut first, mut other) = (None, None);
    each_input(&mut |input| {
        let device = input.device();
        if *first.get_or_insert(device) != device {
            other.get_or_insert(device);
        }
    });
    match (first, other) {
        (Some(left), Some(right)) => Err(Error::DeviceMismatch { op, left, right }),
        _ => Ok(()),
    }
}

fn choose<O: Op>(
    op: &O,
    plan: &O::Plan,
    policy: Policy,
    variant: Option<&str>,
    caller: &'static Location<'static>,
) -> Result<Arc<Registered>> {
    let (device, dtype) = (op.device(), op.dtype());
    Wanted { op: O::NAME, pass: O::PASS, device, dtype, policy, variant, caller }
        .fastest(TypeId::of::<O>(), &|kernel| (kernel.kernel::<O>().applies)(op, plan))
}

/// The requirements of a call on its kernel.
struct Wanted<'a> {
    op: &'static str,
    pass: Pass,
    device: Device,
    dtype: DType,
    policy: Policy,
    /// The only variant to use, if given.
    variant: Option<&'a str>,
    caller: &'static Location<'static>,
}

impl Wanted<'_> {
    /// Returns the first kernel that can compute the call and meets the level. If none does,
    /// warn-only mode returns the first kernel of the highest level.
    fn fastest(
        &self,
        operation: TypeId,
        applies: &dyn Fn(&Registered) -> bool,
    ) -> Result<Arc<Registered>> {
        let Wanted { op, pass, device, dtype, policy, variant, caller } = *self;
        let none = |hint| Error::NoKernel { op, pass, device, dtype, hint };
        let kernels = REGISTRY.read().get(&operation).cloned();
        let kernels = kernels.ok_or_else(|| none("; install the device's kernels first"))?;
        let mut best: Option<&Arc<Registered>> = None;
        for kernel in kernels.iter() {
            let info = &kernel.info;
            let fits = info.device == device.kind()
                && info.dtypes.contains(&dtype)
                && variant.is_none_or(|variant| variant == info.variant)
                && applies(kernel);
            if fits && info.level >= policy.level {
                return Ok(kernel.clone());
            }
            if fits && best.is_none_or(|best| info.level > best.info.level) {
                best = Some(kernel);
            }
        }
        let best = best.ok_or_else(|| none(""))?;
        let (required, level) = (policy.level, best.info.level);
        let refusal = Error::LevelUnavailable { op, pass, device, dtype, required, best: level };
        if !policy.warn_only {
            return Err(refusal);
        }
        if WARNED.lock().insert((op, pass, caller)) {
            warn(&refusal, caller);
        }
        Ok(best.clone())
    }
}

/// Reports a missing level in warn-only mode to the subscriber of this thread, or, if there is
/// none, on standard error.
fn warn(refusal: &Error, caller: &Location<'_>) {
    let unseen = tracing::dispatcher::get_default(|current| current.is::<NoSubscriber>());
    if unseen {
        // Unlike `eprintln!`, this does not panic if standard error is closed.
        writeln!(io::stderr(), "warning: {refusal}\n  --> {caller}").ok();
    } else {
        tracing::warn!(%caller, "{refusal}");
    }
}
