//! Settings of the caller's thread that a loader's work inherits.

use std::sync::OnceLock;

/// Function that runs another under captured settings; see [`inherit`].
pub type Inherited = Box<dyn Fn(&mut dyn FnMut()) + Send + Sync>;

/// Registers thread settings (for example, a level that a library keeps per thread) to be inherited
/// by the datasets and collate functions of all loaders of this process.
///
/// `capture` runs on the thread that begins an epoch. The function that it returns runs the epoch's
/// work, on worker threads or, without workers, on the consumer's thread. The settings are
/// therefore those at the epoch's start, for any number of workers. Intended for the library that
/// owns the settings; only the first call has an effect.
///
/// # Examples
///
/// ```
/// use std::cell::Cell;
///
/// use samebits_data::{DataLoader, DatasetExt, Memory, inherit};
///
/// thread_local!(static SCALE: Cell<i64> = const { Cell::new(1) });
/// inherit(|| {
///     let scale = SCALE.get();
///     Box::new(move |work| {
///         let outer = SCALE.replace(scale);
///         work();
///         SCALE.set(outer);
///     })
/// });
///
/// let data = Memory::new(vec![1_i64, 2, 3]).map(|x, _| Ok(x * SCALE.get()));
/// let loader = DataLoader::builder(data).batch_size(3).workers(2).build()?;
/// SCALE.set(10);
/// assert_eq!(loader.epoch(0).next().unwrap()?.data, [10, 20, 30]);
/// # Ok::<(), samebits_data::Error>(())
/// ```
pub fn inherit(capture: fn() -> Inherited) {
    // A later call changes nothing.
    let _ = CAPTURE.set(capture);
}

static CAPTURE: OnceLock<fn() -> Inherited> = OnceLock::new();

/// Captures the settings of this thread.
pub(crate) fn captured() -> Inherited {
    match CAPTURE.get() {
        Some(capture) => capture(),
        None => Box::new(|work| work()),
    }
}

/// Calls `f` under `settings`.
pub(crate) fn under<R>(settings: &Inherited, f: impl FnOnce() -> R) -> R {
    let (mut f, mut result) = (Some(f), None);
    settings(&mut || {
        if let Some(f) = f.take() {
            result = Some(f());
        }
    });
    result.expect("inherited settings run the work that they are given")
}
