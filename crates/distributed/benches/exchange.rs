//! The exchange of 64 MiB of f32 beside `MPI_Allreduce`, in turns: `cargo xtask mpi --bench`.

// The figures go to the terminal of `mpirun`.
#![allow(clippy::print_stdout)]

use std::time::Instant;

use cpu_time::ProcessTime;
use mpi::collective::SystemOperation;
use mpi::topology::SimpleCommunicator;
use mpi::traits::CommunicatorCollectives;
use samebits_distributed::{Held, Mpi, Ranks, Result};

const ELEMENTS: usize = 16 << 20;
const ROUNDS: usize = 11;

fn main() -> Result<()> {
    let mut ranks = Ranks::new(Mpi::new()?);
    let own: Vec<f32> = (0..ELEMENTS).map(|i| (i % 1000) as f32 + ranks.rank() as f32).collect();
    let world = SimpleCommunicator::world();
    let held: Vec<Vec<Held>> =
        (0..ranks.world() as u64).map(|first| vec![Held { first, level: 0 }]).collect();
    let (mut reduced, mut sum) = (vec![0.0f32; ELEMENTS], vec![0.0f32; ELEMENTS]);
    for piece in [1 << 18, 1 << 20, 4 << 20, 16 << 20, 64 << 20] {
        ranks = ranks.piece(piece);
        // Seconds of the library and of the exchange, and of processor time on this rank.
        let mut times = [const { Vec::new() }; 4];
        let (mut ratios, mut busy_ratios) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            world.barrier();
            let (began, busy) = (Instant::now(), ProcessTime::now());
            world.all_reduce_into(&own[..], &mut reduced[..], SystemOperation::sum());
            world.barrier();
            let library = [began.elapsed().as_secs_f64(), busy.elapsed().as_secs_f64()];
            let (began, busy) = (Instant::now(), ProcessTime::now());
            ranks.sum_into(&held, &[&own[..]], &mut sum)?;
            world.barrier();
            let ours = [began.elapsed().as_secs_f64(), busy.elapsed().as_secs_f64()];
            // Sums of these numbers are exact.
            assert_eq!(sum, reduced);
            ratios.push(ours[0] / library[0]);
            busy_ratios.push(ours[1] / library[1]);
            for (times, seconds) in times.iter_mut().zip(library.into_iter().chain(ours)) {
                times.push(seconds);
            }
        }
        let median = |values: &mut Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        if ranks.rank() == 0 {
            let [library, library_busy, ours, busy] =
                times.each_mut().map(|times| median(times) * 1e3);
            println!(
                "pieces of {:>5} KiB: MPI_Allreduce {library:.1} ms, exchange {ours:.1} ms, ratio \
                 {:.2} ({:.2} to {:.2}); processor time {library_busy:.1} ms, {busy:.1} ms, ratio \
                 {:.2}",
                piece >> 10,
                median(&mut ratios),
                ratios[0],
                ratios[ROUNDS - 1],
                median(&mut busy_ratios),
            );
        }
    }
    Ok(())
}
