//! Writes random bytes to standard output for statistical test suites.
//!
//! ```text
//! cargo run --release -p samebits-rng --example bitstream -- split | dieharder -g 200 -a
//! ```
//!
//! The argument says which words in which order:
//!
//! * `single`: one stream;
//! * `interleaved`: 64 seeds next to each other, a word of each in turn;
//! * `devices`: the streams of 64 devices, a word of each in turn;
//! * `split`: the children of a split into 64, a word of each in turn;
//! * `folded`: the first block of the generators of 0, 1, 2, ...;
//! * `calls`: the generator as one of `rand_core`, each `next_u32` from a block of its own;
//! * `integers`: uniform integers of 128 bits below 3·2^126, their low 64 bits;
//! * `bijection`: the elements of a permutation of 2^64 − 1 numbers, the low half of each;
//! * `pcg64`, `pcg64dxsm`, `philox4x64`: one stream of a host generator.

use rand_core::Rng;
use samebits_rng::{Draw, Generator, Pcg64, Pcg64Dxsm, Philox4x64};
use std::io::{self, Write};
use std::process::ExitCode;

const SEED: u64 = 20261120;
const LANES: usize = 64;

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    let written = match name.as_str() {
        "single" => lanes(vec![Generator::new(SEED)]),
        "interleaved" => lanes((0..LANES as u64).map(|i| Generator::new(SEED + i)).collect()),
        "devices" => {
            lanes((0..LANES as u64).map(|i| Generator::new(SEED).with_stream(i)).collect())
        }
        "split" => lanes(Generator::new(SEED).split(LANES).unwrap()),
        "folded" => folded(),
        "calls" => each_word(Generator::new(SEED), |g| g.next_u32()),
        "integers" => integers(),
        "bijection" => {
            let order = Generator::new(SEED).bijection(u64::MAX);
            each_word(0, |i| {
                *i += 1;
                order.at(*i).unwrap_or_default() as u32
            })
        }
        "pcg64" => host(Pcg64::new(SEED)),
        "pcg64dxsm" => host(Pcg64Dxsm::new(SEED)),
        "philox4x64" => host(Philox4x64::new(SEED)),
        _ => {
            let names = "single, interleaved, devices, split, folded, calls, integers, bijection, \
                         pcg64, pcg64dxsm, philox4x64";
            let _ = writeln!(io::stderr(), "usage: bitstream NAME, one of {names}");
            return ExitCode::FAILURE;
        }
    };
    match written {
        // The reader has had enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "bitstream: {error}");
            ExitCode::FAILURE
        }
        Ok(()) => ExitCode::SUCCESS,
    }
}

/// A word of each generator in turn, for ever.
fn lanes(mut generators: Vec<Generator>) -> io::Result<()> {
    const WORDS: usize = 1 << 12;
    let mut out = io::stdout().lock();
    let mut rows = vec![vec![0u32; WORDS]; generators.len()];
    loop {
        for (row, generator) in rows.iter_mut().zip(&mut generators) {
            generator.draw(Draw::blocks_u32(WORDS)).words(0, row);
        }
        let turns = (0..WORDS).flat_map(|i| rows.iter().map(move |row| row[i]));
        let bytes: Vec<u8> = turns.flat_map(u32::to_le_bytes).collect();
        out.write_all(&bytes)?;
    }
}

fn folded() -> io::Result<()> {
    let mut out = io::stdout().lock();
    let parent = Generator::new(SEED);
    for i in 0.. {
        for word in parent.fold_in(i).next_block() {
            out.write_all(&word.to_le_bytes())?;
        }
    }
    Ok(())
}

/// The words that `next` makes of a state, for ever.
fn each_word<S>(mut state: S, mut next: impl FnMut(&mut S) -> u32) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    loop {
        out.write_all(&next(&mut state).to_le_bytes())?;
    }
}

fn integers() -> io::Result<()> {
    let mut out = io::stdout().lock();
    let mut generator = Generator::new(SEED);
    let mut row = vec![0u128; 1 << 12];
    loop {
        generator.fill_randint(&mut row, 0, 3 << 126).map_err(io::Error::other)?;
        let bytes: Vec<u8> = row.iter().flat_map(|x| (*x as u64).to_le_bytes()).collect();
        out.write_all(&bytes)?;
    }
}

fn host(mut generator: impl Rng) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let mut bytes = vec![0; 1 << 16];
    loop {
        generator.fill_bytes(&mut bytes);
        out.write_all(&bytes)?;
    }
}
