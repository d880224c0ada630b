//! Writes random bytes to standard output for statistical test suites.
//!
//! ```text
//! cargo run --release -p samebits-rng --example bitstream -- split | dieharder -g 200 -a
//! ```
//!
//! The argument selects the words and their order:
//!
//! * `single`: one stream;
//! * `interleaved`: 64 neighbouring seeds, one word of each in turn;
//! * `devices`: the streams of 64 devices, one word of each in turn;
//! * `split`: the children of a split into 64, one word of each in turn;
//! * `folded`: the first block of the generators of 0, 1, 2, ...;
//! * `calls`: the generator as a `rand_core` generator, each `next_u32` from a new block;
//! * `integers`: the low 64 bits of uniform 128-bit integers below 3·2^126;
//! * `integers8`, `integers16`, `integers32`, `integers64`: the low *w* − 2 bits of *w*-bit
//!   integers below 3·2^(*w* − 2), a quarter of which are redrawn;
//! * `bijection`: the low half of each element of a permutation of 2^64 − 1 numbers;
//! * `choice`: 4096 of 2^32 numbers per call, one call after another;
//! * `laplace`, `gumbel`, `cauchy`, `gamma`, `loggamma`, `beta`, `dirichlet`: the leading 32 bits
//!   of f64 variates passed through their distribution function;
//! * `geometric`: variates of probability 1/2 in unary, which gives fair bits;
//! * `categorical`, `rows`: categories of 256 equal logits, and of two rows of 256 equal weights;
//! * `pcg64`, `pcg64dxsm`, `philox4x64`: one stream of a host generator.

// The platform's functions only invert the distributions.
#![allow(clippy::disallowed_methods)]

use rand_core::Rng;
use samebits_rng::{Draw, Error, Generator, Integer, Pcg64, Pcg64Dxsm, Philox4x64};
use std::fmt::Debug;
use std::io::{self, Write};
use std::process::ExitCode;

const SEED: u64 = 20261120;
const LANES: usize = 64;
/// The number of variates drawn per call.
const ROW: usize = 1 << 12;

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
        "integers" => integers::<u128>(126),
        "integers8" => integers::<u8>(6),
        "integers16" => integers::<u16>(14),
        "integers32" => integers::<u32>(30),
        "integers64" => integers::<u64>(62),
        "bijection" => {
            let order = Generator::new(SEED).bijection(u64::MAX);
            each_word(0, |i| {
                *i += 1;
                order.at(*i).unwrap_or_default() as u32
            })
        }
        "choice" => {
            numbers(|g, row| g.choice(1 << 32, ROW).map(|chosen| *row = chosen), |&x| (x, 32))
        }
        "laplace" => numbers(
            |g, row| g.fill_laplace(row, 0.0, 1.0),
            |&x: &f64| leading(if x < 0.0 { x.exp() / 2.0 } else { 1.0 - (-x).exp() / 2.0 }),
        ),
        "gumbel" => {
            numbers(|g, row| g.fill_gumbel(row, 0.0, 1.0), |&x: &f64| leading((-(-x).exp()).exp()))
        }
        "cauchy" => numbers(
            |g, row| g.fill_cauchy(row, 0.0, 1.0),
            |&x: &f64| leading(0.5 + x.atan() / std::f64::consts::PI),
        ),
        "gamma" => numbers(
            |g, row| g.fill_gamma_f64(&[2.0; ROW], row),
            |&x| leading((1.0 + x) * (-x).exp()),
        ),
        "loggamma" => {
            numbers(|g, row| g.fill_loggamma_f64(&[1.0; ROW], row), |&x| leading((-x.exp()).exp()))
        }
        "beta" => numbers(
            |g, row| g.fill_beta_f64(&[2.0; ROW], &[2.0; ROW], row),
            |&x| leading(x * x * (3.0 - 2.0 * x)),
        ),
        "dirichlet" => numbers(
            |g, row| g.fill_dirichlet_f64(&[1.0; 3], row.as_flattened_mut()),
            // The first share has the distribution of the smaller of two uniform numbers; the
            // second is a uniform part of the rest.
            |&[x, y, _]: &[f64; 3]| {
                let (first, next) = (leading((1.0 - x).powi(2)), leading(y / (1.0 - x)));
                (first.0 | next.0 << 32, 64)
            },
        ),
        "geometric" => numbers(
            |g, row| g.fill_geometric(row, 0.5),
            |&x: &u64| (1 << (x.min(64) - 1), x.min(64) as u32),
        ),
        "categorical" => {
            numbers(|g, row| g.fill_categorical(&[0.0; 256], 1, row), |&x| (x as u64, 8))
        }
        "rows" => {
            numbers(|g, row| g.fill_multinomial_rows(&[1.0; 512], 2, row), |&x| (x as u64, 8))
        }
        "pcg64" => host(Pcg64::new(SEED)),
        "pcg64dxsm" => host(Pcg64Dxsm::new(SEED)),
        "philox4x64" => host(Philox4x64::new(SEED)),
        _ => {
            let names = "single, interleaved, devices, split, folded, calls, integers, integers8, \
                         integers16, integers32, integers64, bijection, choice, laplace, gumbel, \
                         cauchy, gamma, loggamma, beta, dirichlet, geometric, categorical, rows, \
                         pcg64, pcg64dxsm, philox4x64";
            let _ = writeln!(io::stderr(), "usage: bitstream NAME, one of {names}");
            return ExitCode::FAILURE;
        }
    };
    match written {
        // The reader has closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "bitstream: {error}");
            ExitCode::FAILURE
        }
        Ok(()) => ExitCode::SUCCESS,
    }
}

/// Writes one word of each generator in turn, forever.
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

/// Writes the words that `next` makes of a state, forever.
fn each_word<S>(mut state: S, mut next: impl FnMut(&mut S) -> u32) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    loop {
        out.write_all(&next(&mut state).to_le_bytes())?;
    }
}

/// Writes the low bits of integers below 3·2^`bits`, at most 64 of each.
fn integers<T>(bits: u32) -> io::Result<()>
where
    T: Integer + Into<u128> + TryFrom<u128, Error: Debug>,
{
    let end = T::try_from(3 << bits).expect("the type is two bits wider");
    let fill = |g: &mut Generator, row: &mut Vec<T>| g.fill_randint(row, T::default(), end);
    numbers(fill, |&x| (x.into() as u64, bits.min(64)))
}

/// Writes the bits that `bits` makes of each variate that `fill` draws, forever; `bits` also
/// returns their number.
fn numbers<T: Clone + Default>(
    mut fill: impl FnMut(&mut Generator, &mut Vec<T>) -> Result<(), Error>,
    bits: impl Fn(&T) -> (u64, u32),
) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut generator = Generator::new(SEED);
    let mut row = vec![T::default(); ROW];
    let (mut held, mut count) = (0u128, 0);
    loop {
        fill(&mut generator, &mut row).map_err(io::Error::other)?;
        for number in &row {
            let (bits, size) = bits(number);
            held |= (u128::from(bits) & ((1 << size) - 1)) << count;
            count += size;
            while count >= 8 {
                out.write_all(&[held as u8])?;
                (held, count) = (held >> 8, count - 8);
            }
        }
    }
}

/// Returns the leading 32 bits of a number from 0 to 1.
fn leading(x: f64) -> (u64, u32) {
    (((x * f64::from(1 << 16) * f64::from(1 << 16)) as u64).min(u32::MAX.into()), 32)
}

fn host(mut generator: impl Rng) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let mut bytes = vec![0; 1 << 16];
    loop {
        generator.fill_bytes(&mut bytes);
        out.write_all(&bytes)?;
    }
}
