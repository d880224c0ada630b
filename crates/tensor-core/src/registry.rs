//! The one list of kernels: which variants of which operation exist, and what each promises.
//!
//! An operation is a value that implements [`Op`]: it holds its inputs and parameters and knows
//! how to turn them into a checked plan. A kernel crate registers [`Kernel`]s for it.
//! [`dispatch`] plans the operation, reads the level in force, and runs the first kernel that
//! meets it: kernels are registered fastest first. There is no silent downgrade.
//!
//! User code registers its own operations in the same way and is refused by the same rule.

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
use tracing::subscriber::NoSubscriber;

use crate::determinism::{self, Policy};
use crate::device::DeviceKind;
use crate::observe::{self, Call};
use crate::rerun::{self, Output};
use crate::{DType, Determinism, Device, Error, Result, Tensor};

/// Whether an operation computes a result or a gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pass {
    /// A result.
    Forward,
    /// A gradient.
    Backward,
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pass::Forward => "forward",
            Pass::Backward => "backward",
        })
    }
}

/// An operation: its inputs, its parameters, and the plan that every device makes alike.
pub trait Op: Send + Sync + 'static {
    /// The operation's name: PyTorch's where it has one.
    const NAME: &'static str;
    /// Whether this computes a result or a gradient.
    const PASS: Pass = Pass::Forward;
    /// What the checks found out and kernels need: a geometry, the shape of the result, or `()`.
    type Plan;
    /// What it returns.
    type Output: Output;

    /// The input tensors; all must be on one device. [`inputs!`](crate::inputs) declares them.
    fn inputs(&self) -> Vec<&Tensor>;

    /// The arguments that are no tensors, by name, for records of the call.
    /// [`parameters!`](crate::parameters) declares them.
    fn parameters(&self) -> Vec<(&'static str, &dyn fmt::Debug)> {
        Vec::new()
    }

    /// The generator that it draws from, where the draw starts.
    fn generator(&self) -> Option<&Generator> {
        None
    }

    /// The device to run on: that of the first input. An operation without inputs says.
    fn device(&self) -> Device {
        self.inputs().first().map_or(Device::Cpu, |tensor| tensor.device())
    }

    /// The element type that a kernel is looked up by: that of the first input. An operation
    /// without inputs says.
    fn dtype(&self) -> DType {
        self.inputs().first().map_or(DType::F32, |tensor| tensor.dtype())
    }

    /// Checks shapes, types and parameters. This is the only check of a call: kernels rely on it,
    /// and take what it has computed from the plan.
    ///
    /// # Errors
    ///
    /// Any [`enum@Error`] that names the operation and both sides of a mismatch.
    fn plan(&self) -> Result<Self::Plan>;
}

/// A field of an operation that holds input tensors: one, perhaps one, or many.
pub trait Inputs {
    /// Adds the tensors to `inputs`.
    fn list<'a>(&'a self, inputs: &mut Vec<&'a Tensor>);
}

impl Inputs for Tensor {
    fn list<'a>(&'a self, inputs: &mut Vec<&'a Tensor>) {
        inputs.push(self);
    }
}

impl Inputs for Option<Tensor> {
    fn list<'a>(&'a self, inputs: &mut Vec<&'a Tensor>) {
        inputs.extend(self);
    }
}

impl Inputs for Vec<Tensor> {
    fn list<'a>(&'a self, inputs: &mut Vec<&'a Tensor>) {
        inputs.extend(self);
    }
}

/// Declares [`Op::inputs`]: the fields of the operation that are [`Inputs`], in this order.
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
    ($($field:ident $(. $part:ident)*),+ $(,)?) => {
        fn inputs(&self) -> Vec<&$crate::Tensor> {
            let mut inputs = Vec::new();
            $($crate::registry::Inputs::list(&self.$field $(. $part)*, &mut inputs);)+
            inputs
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
    /// The variant's name, unique for the operation, the device and the type.
    pub variant: &'static str,
    /// The kind of device it runs on.
    pub device: DeviceKind,
    /// The element types ([`Op::dtype`]) that it takes.
    pub dtypes: &'static [DType],
    /// The level it promises.
    pub level: Determinism,
    /// One line: why the level holds.
    pub why: &'static str,
    /// Whether this variant can compute this very call. A variant that is race-free only for
    /// some arguments is registered twice, with a higher level for those.
    pub applies: fn(&O, &O::Plan) -> bool,
    /// The computation, of an operation and its plan.
    pub run: fn(&O, &O::Plan) -> Result<O::Output>,
}

impl<O: Op> Kernel<O> {
    /// A host kernel that computes any call at [`Determinism::Portable`].
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

    /// A host kernel that computes any call, with no promise on its bits.
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
}

impl<O: Op> fmt::Debug for Kernel<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({} {} on {}, {})", O::NAME, self.variant, self.device, self.level)
    }
}

/// Adds `kernel` to the registry, after the ones already there: register the fastest first.
///
/// # Panics
///
/// If the same variant is already registered for this operation, device and type: two kernels
/// under one name could not be told apart in a report.
pub fn register<O: Op>(kernel: Kernel<O>) {
    let info = KernelInfo {
        op: O::NAME,
        pass: O::PASS,
        device: kernel.device,
        dtypes: kernel.dtypes,
        variant: kernel.variant,
        level: kernel.level,
        why: kernel.why,
    };
    let mut registry = REGISTRY.write();
    let (entry, runs) = list(&mut registry, TypeId::of::<O>(), Entry::new::<O>, info);
    let kernels: &Arc<Kernels<O>> = entry.kernels.downcast_ref().expect("keyed by its own type");
    let mut all: Vec<Arc<Registered<O>>> = kernels.0.clone();
    all.push(Arc::new(Registered { kernel, runs }));
    entry.kernels = Box::new(Arc::new(Kernels(all)));
}

/// What [`register`] does alike for every operation: adds `info` to the entry of the operation,
/// which `new` makes, with a count of runs.
fn list(
    registry: &mut BTreeMap<TypeId, Entry>,
    op: TypeId,
    new: fn() -> Entry,
    info: KernelInfo,
) -> (&mut Entry, Arc<AtomicU64>) {
    let entry = registry.entry(op).or_insert_with(new);
    let clash = entry.infos.iter().any(|(old, _)| {
        old.variant == info.variant
            && old.device == info.device
            && old.dtypes.iter().any(|dtype| info.dtypes.contains(dtype))
    });
    assert!(
        !clash,
        "{} {} on {} for {:?} is registered twice",
        info.op, info.variant, info.device, info.dtypes
    );
    let runs = Arc::new(AtomicU64::new(0));
    entry.infos.push((info, runs.clone()));
    (entry, runs)
}

/// Plans `op` and runs the fastest kernel that meets the level in force on this thread.
///
/// # Determinism
///
/// The result has the promise of the level in force. Kernels run with round to nearest and
/// subnormals kept, whatever the caller set.
///
/// # Errors
///
/// What [`Op::plan`] finds; [`Error::DeviceMismatch`]; [`Error::LevelUnavailable`] if no variant
/// that can compute this call meets the level, unless in warn-only mode; [`Error::NoKernel`];
/// [`Error::RerunDiffers`] in re-run mode; [`Error::Observer`] if one listens and refuses.
#[track_caller]
pub fn dispatch<O: Op>(op: &O) -> Result<O::Output> {
    dispatch_with(op, determinism::policy(), |_| true)
}

/// [`dispatch`] with `level` required for this one call.
///
/// # Errors
///
/// As [`dispatch`].
#[track_caller]
pub fn dispatch_at<O: Op>(op: &O, level: Determinism) -> Result<O::Output> {
    dispatch_with(op, Policy { level, warn_only: false }, |_| true)
}

/// [`dispatch`] that takes the named variant whatever its level, for tests and benchmarks.
///
/// # Errors
///
/// As [`dispatch`]; [`Error::NoKernel`] if the variant does not exist or cannot compute this call.
#[track_caller]
pub fn dispatch_variant<O: Op>(op: &O, variant: &str) -> Result<O::Output> {
    let any = Policy { level: Determinism::NotGuaranteed, warn_only: false };
    dispatch_with(op, any, |kernel| kernel.variant == variant)
}

/// Whether [`dispatch`] would find a kernel that can compute this call at the level in force, for
/// operations that can also be composed of others.
pub fn is_available<O: Op>(op: &O) -> bool {
    let chosen = |plan| choose(op, &plan, determinism::policy(), |_| true, Location::caller());
    op.plan().and_then(chosen).is_ok()
}

/// What the registry knows of one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelInfo {
    /// The operation.
    pub op: &'static str,
    /// Result or gradient.
    pub pass: Pass,
    /// The kind of device.
    pub device: DeviceKind,
    /// The element types.
    pub dtypes: &'static [DType],
    /// The variant.
    pub variant: &'static str,
    /// The level it promises.
    pub level: Determinism,
    /// Why the level holds.
    pub why: &'static str,
}

/// Every registered kernel and how often it has run in this process, sorted by operation, pass,
/// device and then from fastest to slowest.
pub fn kernels() -> Vec<(KernelInfo, u64)> {
    let registry = REGISTRY.read();
    // Types come in an order that changes from build to build; two of them may share a name.
    let mut entries: Vec<_> = registry.values().map(|entry| &entry.infos).collect();
    entries.sort_by_key(|infos| infos.first().map(|(info, _)| info.variant));
    let mut all: Vec<_> = entries
        .into_iter()
        .flatten()
        .map(|(info, runs)| (*info, runs.load(Ordering::Relaxed)))
        .collect();
    all.sort_by_key(|(info, _)| (info.op, info.pass, info.device));
    all
}

struct Entry {
    infos: Vec<(KernelInfo, Arc<AtomicU64>)>,
    /// An `Arc<Kernels<O>>`.
    kernels: Box<dyn Any + Send + Sync>,
}

impl Entry {
    fn new<O: Op>() -> Entry {
        Entry { infos: Vec::new(), kernels: Box::new(Arc::new(Kernels::<O>(Vec::new()))) }
    }
}

struct Kernels<O: Op>(Vec<Arc<Registered<O>>>);

struct Registered<O: Op> {
    kernel: Kernel<O>,
    runs: Arc<AtomicU64>,
}

static REGISTRY: RwLock<BTreeMap<TypeId, Entry>> = RwLock::new(BTreeMap::new());

/// Operations and call sites that have been warned about a missing level.
static WARNED: Mutex<BTreeSet<Site>> = Mutex::new(BTreeSet::new());

type Site = (&'static str, Pass, &'static Location<'static>);

/// What other libraries do to a thread's floating-point mode is reported once.
static REPORT_REPAIR: Once = Once::new();

#[track_caller]
fn dispatch_with<O: Op>(
    op: &O,
    policy: Policy,
    accept: impl Fn(&Kernel<O>) -> bool,
) -> Result<O::Output> {
    let caller = Location::caller();
    let result = fpenv::ieee(|| {
        check_level::<O>()?;
        check_devices::<O>(&op.inputs())?;
        let plan = op.plan()?;
        let chosen = choose(op, &plan, policy, accept, caller)?;
        let Kernel { variant, level, .. } = chosen.kernel;
        tracing::trace!(op = O::NAME, variant, %level, "dispatch");
        let run = || {
            chosen.runs.fetch_add(1, Ordering::Relaxed);
            (chosen.kernel.run)(op, &plan)
        };
        // What promises nothing may differ from itself.
        let output = if level == Determinism::NotGuaranteed {
            run()?
        } else {
            rerun::checked::<O>(op, variant, run)?
        };
        if observe::is_on() {
            observe::tell(O::NAME, |observer| {
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
            })?;
        }
        Ok(output)
    });
    if fpenv::was_repaired() {
        REPORT_REPAIR.call_once(|| {
            tracing::warn!(
                op = O::NAME,
                %caller,
                "a thread flushed subnormals to zero or did not round to nearest: some library \
                 has changed its floating-point mode. Operations restore IEEE arithmetic while \
                 they run; other code on that thread does not."
            );
        });
    }
    result.map_err(|error: Error| error.called(O::NAME))
}

/// A misspelt level would otherwise cost speed in silence.
fn check_level<O: Op>() -> Result<()> {
    match simd::unknown_request() {
        None => Ok(()),
        Some(found) => Err(Error::UnknownSimdLevel { op: O::NAME, found }),
    }
}

fn check_devices<O: Op>(inputs: &[&Tensor]) -> Result<()> {
    for pair in inputs.windows(2) {
        let (left, right) = (pair[0].device(), pair[1].device());
        if left != right {
            return Err(Error::DeviceMismatch { op: O::NAME, left, right });
        }
    }
    Ok(())
}

fn choose<O: Op>(
    op: &O,
    plan: &O::Plan,
    policy: Policy,
    accept: impl Fn(&Kernel<O>) -> bool,
    caller: &'static Location<'static>,
) -> Result<Arc<Registered<O>>> {
    let (device, dtype) = (op.device(), op.dtype());
    let kernels = REGISTRY.read().get(&TypeId::of::<O>()).map(|entry| {
        let kernels: &Arc<Kernels<O>> =
            entry.kernels.downcast_ref().expect("keyed by its own type");
        kernels.clone()
    });
    let none = |hint| Error::NoKernel { op: O::NAME, pass: O::PASS, device, dtype, hint };
    let Some(kernels) = kernels else {
        return Err(none("; install the device's kernels first"));
    };
    let candidates: Vec<_> = kernels
        .0
        .iter()
        .filter(|k| k.kernel.device == device.kind() && k.kernel.dtypes.contains(&dtype))
        .filter(|k| accept(&k.kernel) && (k.kernel.applies)(op, plan))
        .collect();
    if let Some(&fastest) = candidates.iter().find(|k| k.kernel.level >= policy.level) {
        return Ok(fastest.clone());
    }
    let mut best: Option<&Arc<Registered<O>>> = None;
    for &candidate in &candidates {
        if best.is_none_or(|best| candidate.kernel.level > best.kernel.level) {
            best = Some(candidate);
        }
    }
    let best = best.ok_or_else(|| none(""))?;
    let refusal = Error::LevelUnavailable {
        op: O::NAME,
        pass: O::PASS,
        device,
        dtype,
        required: policy.level,
        best: best.kernel.level,
    };
    if !policy.warn_only {
        return Err(refusal);
    }
    if WARNED.lock().insert((O::NAME, O::PASS, caller)) {
        warn(&refusal, caller);
    }
    Ok(best.clone())
}

/// Reports what warn-only mode lets pass: to the subscriber of this thread, or, as nobody would see
/// it without one, on standard error.
fn warn(refusal: &Error, caller: &Location<'_>) {
    let unseen = tracing::dispatcher::get_default(|current| current.is::<NoSubscriber>());
    if unseen {
        // Unlike `eprintln!`, this does not panic if standard error is closed.
        writeln!(io::stderr(), "warning: {refusal}\n  --> {caller}").ok();
    } else {
        tracing::warn!(%caller, "{refusal}");
    }
}
