//! The program of each process in a job under `mpirun`; the first argument selects the case.
//!
//! `cargo xtask mpi` starts the jobs and checks how they end. Without arguments there is one rank.

// The processes talk to the terminal of `mpirun`.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use samebits_autograd::optim::TreeSum;
use samebits_distributed::{Error, Held, Mpi, Ranks, Result};
use samebits_rng::Generator;

const MICRO_BATCHES: u64 = 8;

fn main() {
    // Test runners append their own flags.
    let case = std::env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    let case = case.unwrap_or_else(|| "sum".to_owned());
    let transport = Mpi::new().unwrap().timeout(Duration::from_secs(3));
    let result = match case.as_str() {
        "sum" => sums(transport),
        "all-reduce" => all_reduce(transport),
        "unlike" => unlike(transport),
        _ => faulty(transport, &case),
    };
    if let Err(error) = result {
        println!("ended: {error}");
        std::process::exit(3);
    }
}

/// Returns the gradient of micro-batch `v`, over forty powers of two.
fn gradient(v: u64, len: usize) -> Vec<f32> {
    let mut generator = Generator::new(38).fold_in(v);
    let mut value = || {
        let [bits, other, ..] = generator.next_block();
        f32::from_bits((bits & 0x807f_ffff) | ((100 + other % 40) << 23))
    };
    (0..len).map(|_| value()).collect()
}

fn add(a: Vec<f32>, b: Vec<f32>) -> samebits_autograd::Result<Vec<f32>> {
    Ok(a.iter().zip(&b).map(|(a, b)| a + b).collect())
}

/// Returns the tree over those micro-batches.
fn tree(own: std::ops::Range<u64>, len: usize) -> TreeSum<Vec<f32>> {
    let mut sum = TreeSum::starting_at(own.start);
    own.for_each(|v| sum.push(gradient(v, len), add).unwrap());
    sum
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// Every rank gets the sum that one process computes.
fn sums(transport: Mpi) -> Result<()> {
    let mut ranks = Ranks::new(transport);
    for (len, piece) in [(1000, 64), (1000, 1 << 20), (3_000_000, 1 << 20), (3_000_000, 4 << 20)] {
        ranks = ranks.piece(piece);
        let nodes = tree(ranks.owned(MICRO_BATCHES), len).into_nodes();
        let held = ranks.gather(Ok::<_, String>(nodes.iter().map(Held::of).collect::<Vec<_>>()))?;
        let own: Vec<&[f32]> = nodes.iter().map(|node| &node.sum[..]).collect();
        let sum = ranks.sum(&held, &own)?;
        let alone = tree(0..MICRO_BATCHES, len).finish(add)?.unwrap();
        if bits(&sum) != bits(&alone) {
            return Err(Error::Invalid(format!("{len} elements in pieces of {piece}: other bits")));
        }
    }
    // Longer than one message of the library.
    let rank = ranks.rank();
    let mut news = if rank == 0 { vec![7; (64 << 20) + 5] } else { Vec::new() };
    ranks.transport().broadcast(0, &mut news)?;
    if news.len() != (64 << 20) + 5 || news.last() != Some(&7) {
        return Err(Error::Invalid("a broadcast of more than a part".to_owned()));
    }
    if rank == 0 {
        println!("same bits on {} ranks", ranks.world());
    }
    Ok(())
}

/// The negative control: the library's own sum of floats has other bits.
fn all_reduce(transport: Mpi) -> Result<()> {
    use mpi::collective::SystemOperation;
    use mpi::topology::SimpleCommunicator;
    use mpi::traits::CommunicatorCollectives;

    const LEN: usize = 1000;
    let ranks = Ranks::new(transport);
    let folded = |own: std::ops::Range<u64>| {
        own.map(|v| gradient(v, LEN)).reduce(|a, b| add(a, b).unwrap()).unwrap()
    };
    let own = folded(ranks.owned(MICRO_BATCHES));
    let mut sum = vec![0.0f32; LEN];
    SimpleCommunicator::world().all_reduce_into(&own[..], &mut sum[..], SystemOperation::sum());
    let alone = tree(0..MICRO_BATCHES, LEN).finish(add)?.unwrap();
    match bits(&sum) == bits(&alone) {
        true => Err(Error::Invalid("an all-reduce has the bits of the tree".to_owned())),
        false => Ok(()),
    }
}

fn unlike(transport: Mpi) -> Result<()> {
    let ranks = Ranks::new(transport);
    let seed = if ranks.rank() == 1 { "8" } else { "7" };
    ranks.agree(&[("seed", seed.to_owned())])
}

/// Rank 1 does something else while the others wait for it.
fn faulty(transport: Mpi, case: &str) -> Result<()> {
    let ranks = Ranks::new(transport);
    ranks.gather(Ok::<_, String>(1))?;
    if ranks.rank() == 1 {
        match case {
            "panic" => panic!("planted"),
            "hang" => std::thread::sleep(Duration::from_secs(60)),
            "abort" => ranks.transport().abort("batch 7: no such file"),
            "exit" => std::process::exit(9),
            _ => return Err(Error::Invalid(format!("no case {case}"))),
        }
    }
    ranks.gather(Ok::<_, String>(2)).map(|_| ())
}
