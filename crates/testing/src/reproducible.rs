use samebits::tensor_core::Tensor as Value;
use samebits::{Error, Result, Tensor};

use crate::bits::compare_tensors;
use crate::trace::Trace;
use crate::{Difference, Parting, Setting, ThreadsMissing};

/// Results of a reproducible function: one tensor, several, or named ones.
pub trait Results {
    /// Returns every tensor, in a fixed order.
    fn values(self) -> Vec<Value>;
}

impl Results for Value {
    fn values(self) -> Vec<Value> {
        vec![self]
    }
}

impl Results for Tensor {
    fn values(self) -> Vec<Value> {
        vec![self.value().clone()]
    }
}

impl<T: Results> Results for Vec<T> {
    fn values(self) -> Vec<Value> {
        self.into_iter().flat_map(T::values).collect()
    }
}

impl<T: Results> Results for (String, T) {
    fn values(self) -> Vec<Value> {
        self.1.values()
    }
}

macro_rules! tuples {
    ($($name:ident),+) => {
        impl<$($name: Results),+> Results for ($($name,)+) {
            #[expect(non_snake_case, reason = "a type and its value share a name")]
            fn values(self) -> Vec<Value> {
                let ($($name,)+) = self;
                [$($name.values()),+].concat()
            }
        }
    };
}

tuples!(A, B);
tuples!(A, B, C);
tuples!(A, B, C, D);

/// Reason why a function is not reproducible, or could not be tested.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum NotReproducible {
    /// Its results differ between runs.
    #[error("{}", differs(setting, *result, difference, parting.as_deref()))]
    Differs {
        /// The setting in which they differ; the first run was in [`Setting::of`] the CPU.
        setting: Setting,
        /// The index of the result.
        result: usize,
        /// The difference.
        difference: Box<Difference>,
        /// The first operation that differed. `None` if no observed operation did.
        parting: Option<Box<Parting>>,
    },
    /// The function failed.
    #[error("the function failed ({setting}): {error}")]
    Failed {
        /// The setting.
        setting: Setting,
        /// The error.
        error: Box<Error>,
    },
    /// The threads of a setting could not be started.
    #[error(transparent)]
    Threads(#[from] ThreadsMissing),
}

samebits::numerics::debug_is_message!(NotReproducible);

fn differs(
    setting: &Setting,
    result: usize,
    difference: &Difference,
    parting: Option<&Parting>,
) -> String {
    let operation = match parting {
        Some(parting) => format!("{parting}"),
        None => "no operation differed when they were listened to: something besides operations \
                 enters, or it does not differ every time"
            .to_owned(),
    };
    format!("not reproducible: result {result} differs ({setting}): {difference}; {operation}")
}

/// Asserts that `f` gives the same bits a second time, on 1, 3 and 16 threads, at every instruction
/// set of this machine, and while other threads keep it busy.
///
/// `f` must seed its generators: a generator that the first run advanced gives other numbers to the
/// second.
///
/// # Panics
///
/// If a bit differs, with the result, the position, and the first operation that differed; or if
/// `f` fails.
///
/// # Examples
///
/// ```
/// use samebits::{Tensor, manual_seed, randn};
///
/// samebits_testing::assert_reproducible(|| {
///     manual_seed(0);
///     randn(&[100, 100])?.softmax(-1)?.sum(())
/// });
/// ```
#[track_caller]
pub fn assert_reproducible<T: Results>(f: impl Fn() -> Result<T> + Sync) {
    if let Err(error) = check_reproducible(f) {
        panic!("{error}");
    }
}

/// Checks as [`assert_reproducible`] does, and returns a `Result`.
///
/// # Errors
///
/// [`NotReproducible`].
pub fn check_reproducible<T: Results>(
    f: impl Fn() -> Result<T> + Sync,
) -> Result<(), NotReproducible> {
    let run = |setting: Setting| {
        setting
            .enter(|| f().map(T::values))?
            .map_err(|error| NotReproducible::Failed { setting, error: Box::new(error) })
    };
    let settings = Setting::host();
    let golden = run(settings[0])?;
    // The first setting again: a clock, or a generator that was advanced, shows without any change
    // of setting.
    for &setting in &settings {
        let Some((result, difference)) = first_difference(&golden, &run(setting)?) else {
            continue;
        };
        let trace = |setting: Setting| setting.enter(|| Trace::of(|| drop(f())));
        let parting = trace(settings[0])?.parting(&trace(setting)?).map(Box::new);
        let difference = Box::new(difference);
        return Err(NotReproducible::Differs { setting, result, difference, parting });
    }
    Ok(())
}

fn first_difference(left: &[Value], right: &[Value]) -> Option<(usize, Difference)> {
    let differing =
        |(i, (a, b)): (usize, (&Value, &Value))| Some((i, compare_tensors(a, b).err()?));
    let counts = (left.len(), right.len());
    left.iter().zip(right).enumerate().find_map(differing).or_else(|| {
        let (left, right) = counts;
        (left != right).then(|| (left.min(right), Difference::Count { left, right }))
    })
}
