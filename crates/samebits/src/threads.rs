use rayon::ThreadPoolBuilder;
use samebits_cpu_kernels::MOST_THREADS;

/// Runs `f` with `threads` threads for operations to share, or with the caller's if `None`.
///
/// 0 stands for as many threads as the caller has, in a separate pool.
///
/// With a number, `f` runs on one of these threads and not on the caller's, so thread-local
/// settings do not carry over. Seed default generators inside `f`; otherwise drawing from them
/// gives [`Error::ForeignThread`](crate::Error::ForeignThread). `nn::train`, `nn::draw_from`,
/// `no_grad` and scopes of levels and observers also hold in `f` only if `f` opens them.
///
/// # Determinism
///
/// No bit depends on the number of threads, except for kernels at
/// [`Determinism::NotGuaranteed`](crate::Determinism).
///
/// # Errors
///
/// [`ThreadsMissing`] if `threads` is above 1024 or the system does not start them.
///
/// # Examples
///
/// ```
/// let x = samebits::Tensor::from_slice(&[1.0f32, 2.0, 3.0], &[3])?;
/// let one = samebits::on_threads(Some(1), || x.sum(..)).expect("a thread")?;
/// assert_eq!(one.item::<f32>()?, x.sum(..)?.item::<f32>()?);
///
/// samebits::manual_seed(0);
/// let outside = samebits::on_threads(Some(1), || samebits::functional::rand(&[3])).expect("a thread");
/// assert!(matches!(outside, Err(samebits::Error::ForeignThread { op: "rand" })));
/// let inside = samebits::on_threads(Some(1), || {
///     samebits::manual_seed(0);
///     samebits::functional::rand(&[3])
/// });
/// let (inside, here) = (inside.expect("a thread")?, samebits::functional::rand(&[3])?);
/// assert_eq!(inside.to_vec::<f32>()?, here.to_vec::<f32>()?);
/// # Ok::<(), samebits::Error>(())
/// ```
pub fn on_threads<R: Send>(
    threads: Option<usize>,
    f: impl FnOnce() -> R + Send,
) -> Result<R, ThreadsMissing> {
    let Some(threads) = threads else { return Ok(f()) };
    if threads > MOST_THREADS {
        return Err(ThreadsMissing::TooMany { threads, most: MOST_THREADS });
    }
    let count = if threads == 0 { crate::environment::threads() } else { threads };
    let pool = ThreadPoolBuilder::new().num_threads(count).build();
    Ok(pool.map_err(|source| ThreadsMissing::NotStarted { threads: count, source })?.install(f))
}

/// Error of starting threads.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ThreadsMissing {
    /// More threads than any machine can use: starting them would take minutes, or end the process.
    #[error("on_threads: expected at most {most} threads, got {threads}")]
    TooMany {
        /// The number requested.
        threads: usize,
        /// The number permitted.
        most: usize,
    },
    /// The system did not start the threads.
    #[error("on_threads: {threads} threads could not be started: {source}")]
    NotStarted {
        /// The number requested.
        threads: usize,
        /// The cause.
        source: rayon::ThreadPoolBuildError,
    },
}

crate::numerics::debug_is_message!(ThreadsMissing);
