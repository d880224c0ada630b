//! Settings of the caller's thread that hold for the work a loader does.

use std::sync::OnceLock;

/// Runs a function under settings that were in force elsewhere; see [`inherit`].
pub type Inherited = Box<dyn Fn(&mut dyn FnMut()) + Send + Sync>;

/// Makes settings of a thread, such as a level that a library keeps for each thread, hold for the
/// datasets and collate functions of all loaders of this process.
///
/// `capture` runs on the thread that begins an epoch. What it returns runs the epoch's work, on
/// worker threads or, if there are none, on the consumer's: the settings are those of the epoch's
/// beginning for any number of workers. For the library whose settings these are; only the first
/// call counts.
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

/// The settings of this thread.
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
