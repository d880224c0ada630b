use rayon::ThreadPoolBuilder;

/// Runs `f` with `threads` threads for operations to share, or with those that the caller has.
///
/// # Determinism
///
/// No bit depends on the number of threads, but for kernels at
/// [`Determinism::NotGuaranteed`](crate::Determinism).
///
/// # Errors
///
/// [`ThreadsMissing`] if the threads cannot be started.
///
/// # Examples
///
/// ```
/// let x = samebits::Tensor::from_slice(&[1.0f32, 2.0, 3.0], &[3])?;
/// let one = samebits::on_threads(Some(1), || x.sum(..)).expect("a thread")?;
/// assert_eq!(one.item::<f32>()?, x.sum(..)?.item::<f32>()?);
/// # Ok::<(), samebits::Error>(())
/// ```
pub fn on_threads<R: Send>(
    threads: Option<usize>,
    f: impl FnOnce() -> R + Send,
) -> Result<R, ThreadsMissing> {
    let Some(threads) = threads else { return Ok(f()) };
    let pool = ThreadPoolBuilder::new().num_threads(threads).build();
    Ok(pool.map_err(|source| ThreadsMissing { threads, source })?.install(f))
}

/// Threads that cannot be started.
#[derive(Debug, thiserror::Error)]
#[error("{threads} threads could not be started: {source}")]
pub struct ThreadsMissing {
    /// How many.
    pub threads: usize,
    /// Why.
    pub source: rayon::ThreadPoolBuildError,
}
