//! Training on ranks: the same bits for any number of ranks.
//!
//! A training step is divided into `L` micro-batches, and up to `L` ranks each compute a contiguous
//! range of them. The fixed tree of [`TreeSum`](samebits_autograd::optim::TreeSum), whose shape
//! depends only on `L`, adds the gradients: each rank sums the tree nodes within its range, and
//! [`Ranks::sum`] exchanges nodes.
//!
//! ```text
//! rank 0          rank 1          rank 2
//! 0   1   2       3   4   5       6   7        micro-batches, L = 8
//!  \ /    |       |    \ /         \ /
//! 0..2    2       3    4..6        6..8        nodes: what is exchanged
//!     \    \     /       \         /
//!      \    2..4          \       /
//!       \   /              \     /
//!        0..4               4..8               added by every rank, each its slice
//!            \             /
//!             0 ......... 8
//! ```
//!
//! A [`Transport`] moves bytes between ranks and never adds, so no library, ring or number of ranks
//! can change a bit. [`Threads`] connects threads of one process; `Mpi` (feature `mpi`) connects
//! processes.
//!
//! # Examples
//!
//! ```
//! use samebits_distributed::{Held, Ranks, threads};
//!
//! let gradients = [1e8f32, 1.0, -1e8, 1.0];
//! for world in [1, 2, 4] {
//!     let sums = threads::run(world, move |transport| {
//!         let ranks = Ranks::new(transport);
//!         // Each rank holds one node here: four, two or one micro-batches of four.
//!         let own = ranks.owned(4);
//!         let part = &gradients[own.start as usize..own.end as usize];
//!         let node = match part {
//!             [a, b, c, d] => (a + b) + (c + d),
//!             [a, b] => a + b,
//!             _ => part[0],
//!         };
//!         let level = part.len().ilog2();
//!         let held = ranks.gather(Ok::<_, String>(vec![Held { first: own.start, level }]))?;
//!         ranks.sum(&held, &[&[node][..]])
//!     })?;
//!     assert!(sums.iter().all(|sum| sum == &[0.0]));
//! }
//! # Ok::<(), samebits_distributed::Error>(())
//! ```

mod error;
#[cfg(feature = "mpi")]
mod mpi;
mod ranks;
mod sum;
pub mod threads;
mod transport;

pub use error::{Error, Result};
#[cfg(feature = "mpi")]
pub use mpi::Mpi;
pub use ranks::Ranks;
pub use sum::{Held, Scalar};
pub use threads::Threads;
pub use transport::Transport;

/// Returns the number of processes that an MPI launcher started together with this one, judging by
/// the variables that Open MPI, MPICH, Intel MPI and Slurm set: 1 if the launcher does not tell, none
/// without a launcher.
pub fn launched() -> Option<usize> {
    let size = |variable| std::env::var(variable).ok()?.parse().ok();
    ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"].into_iter().find_map(size).or_else(|| {
        std::env::var_os("PMIX_RANK")?;
        size("SLURM_STEP_NUM_TASKS").or(Some(1))
    })
}

/// Names the transports of this build: threads, and the MPI library if there is one.
pub fn transports() -> String {
    #[cfg(feature = "mpi")]
    let processes = format!("processes by {}", Mpi::library());
    #[cfg(not(feature = "mpi"))]
    let processes = "no processes: built without the feature `mpi`";
    match launched() {
        None => format!("threads, {processes}"),
        Some(world) => format!("threads, {processes}; {world} started by a launcher"),
    }
}
