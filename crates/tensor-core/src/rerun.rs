//! Re-run mode: every operation runs several times and the bits must agree.
//!
//! Set the environment variable `SAMEBITS_RERUN=n`, or run a part of a program in [`scope`].
//! [`Error::RerunDiffers`] names the first operation whose bits differ. Variants without a promise
//! run once. If the variable holds anything but a number from 1, every operation returns
//! [`Error::InvalidVariable`].
//!
//! # References
//!
//! The testing mode proposed in TensorFlow's RFC 20210119 on determinism.

use std::cell::Cell;
use std::sync::OnceLock;

use scopeguard::guard;

use crate::{Device, Error, KernelInfo, Result, Tensor};

/// The result of an operation: tensors, compared by their bits.
pub trait Output: Sized {
    /// Returns the position of the first bit in which `self` and `other` differ.
    ///
    /// # Errors
    ///
    /// [`Error::Backend`] if a device cannot return its bits.
    fn first_difference(&self, other: &Self) -> Result<Option<String>>;

    /// Appends the tensors in this result to `tensors`.
    fn tensors<'a>(&'a self, tensors: &mut Vec<&'a Tensor>);
}

impl Output for () {
    fn first_difference(&self, (): &()) -> Result<Option<String>> {
        Ok(None)
    }

    fn tensors<'a>(&'a self, _: &mut Vec<&'a Tensor>) {}
}

impl Output for Tensor {
    fn first_difference(&self, other: &Tensor) -> Result<Option<String>> {
        if self.shape() != other.shape() || self.dtype() != other.dtype() {
            return Ok(Some(format!("shape or type: {self:?} and {other:?}")));
        }
        let (a, b) = (self.to_bytes()?, other.to_bytes()?);
        let size = self.dtype().size();
        Ok(a.chunks_exact(size).zip(b.chunks_exact(size)).position(|(a, b)| a != b).map(|i| {
            let bytes = i * size..(i + 1) * size;
            let hex = |bytes: &[u8]| -> String {
                bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect()
            };
            format!("element {i}: {} and {}", hex(&a[bytes.clone()]), hex(&b[bytes]))
        }))
    }

    fn tensors<'a>(&'a self, tensors: &mut Vec<&'a Tensor>) {
        tensors.push(self);
    }
}

impl<T: Output> Output for Option<T> {
    fn first_difference(&self, other: &Option<T>) -> Result<Option<String>> {
        match (self, other) {
            (Some(a), Some(b)) => a.first_difference(b),
            (None, None) => Ok(None),
            _ => Ok(Some("presence".to_owned())),
        }
    }

    fn tensors<'a>(&'a self, tensors: &mut Vec<&'a Tensor>) {
        self.iter().for_each(|output| output.tensors(tensors));
    }
}

impl<T: Output> Output for Vec<T> {
    fn first_difference(&self, other: &Vec<T>) -> Result<Option<String>> {
        if self.len() != other.len() {
            return Ok(Some(format!("length: {} and {}", self.len(), other.len())));
        }
        for (i, (a, b)) in self.iter().zip(other).enumerate() {
            if let Some(difference) = a.first_difference(b)? {
                return Ok(Some(format!("output {i}, {difference}")));
            }
        }
        Ok(None)
    }

    fn tensors<'a>(&'a self, tensors: &mut Vec<&'a Tensor>) {
        self.iter().for_each(|output| output.tensors(tensors));
    }
}

macro_rules! tuple_output {
    ($($name:ident $index:tt),+) => {
        impl<$($name: Output),+> Output for ($($name,)+) {
            fn first_difference(&self, other: &Self) -> Result<Option<String>> {
                $(if let Some(difference) = self.$index.first_difference(&other.$index)? {
                    return Ok(Some(format!("output {}, {difference}", $index)));
                })+
                Ok(None)
            }

            fn tensors<'a>(&'a self, tensors: &mut Vec<&'a Tensor>) {
                $(self.$index.tensors(tensors);)+
            }
        }
    };
}

tuple_output!(A 0, B 1);
tuple_output!(A 0, B 1, C 2);
tuple_output!(A 0, B 1, C 2, D 3);

/// Runs `f` with every operation of this thread run `times` times.
pub fn scope<R>(times: usize, f: impl FnOnce() -> R) -> R {
    let _restored = guard(SCOPE.replace(Some(times)), |outer| SCOPE.set(outer));
    f()
}

/// Returns how often each operation runs on this thread: 1 unless re-run mode is on.
pub fn times() -> usize {
    SCOPE.get().unwrap_or_else(|| request().unwrap_or(1)).max(1)
}

/// The environment variable that sets the number of runs of each operation.
pub const VARIABLE: &str = "SAMEBITS_RERUN";

/// Returns the value of [`VARIABLE`] if it is not a valid number of runs. Read once.
pub fn unknown_request() -> Option<&'static str> {
    request().err()
}

/// Returns the number of runs that the environment requests, or its invalid value.
fn request() -> Result<usize, &'static str> {
    static REQUEST: OnceLock<Result<usize, String>> = OnceLock::new();
    let request = REQUEST.get_or_init(|| match std::env::var_os(VARIABLE) {
        None => Ok(1),
        Some(text) => match text.to_str().and_then(|text| text.trim().parse().ok()) {
            Some(times @ 1..) => Ok(times),
            _ => Err(text.to_string_lossy().into_owned()),
        },
    });
    request.as_ref().copied().map_err(String::as_str)
}

thread_local! {
    static SCOPE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Runs a kernel again, as often as the mode requires, until a result differs from the first.
pub(crate) fn difference<R: Output>(
    first: &R,
    run: &dyn Fn() -> Result<R>,
) -> Result<Option<Difference>> {
    for repeat in 2..=times() {
        if let Some(what) = first.first_difference(&run()?)? {
            return Ok(Some(Difference { run: repeat, what }));
        }
    }
    Ok(None)
}

/// A difference between two runs: the number of the run, and the position.
pub(crate) struct Difference {
    run: usize,
    what: String,
}

impl Difference {
    pub(crate) fn error(self, kernel: &KernelInfo, inputs: &[&Tensor]) -> Error {
        let Difference { run, what } = self;
        let KernelInfo { op, pass, variant, .. } = *kernel;
        let inputs: Vec<String> =
            inputs.iter().map(|x| format!("{}{:?}", x.dtype(), x.shape())).collect();
        Error::RerunDiffers { op, pass, variant, run, what, inputs: inputs.join(", ") }
    }
}

/// Returns true if both tensors have the same shape, type and bits.
///
/// # Errors
///
/// [`Error::Backend`] if a device cannot return its bits.
pub fn same_bits(a: &Tensor, b: &Tensor) -> Result<bool> {
    Ok(a.to(Device::Cpu)?.first_difference(&b.to(Device::Cpu)?)?.is_none())
}
