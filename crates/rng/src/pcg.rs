//! PCG generators for the host, over `rand_pcg`.

use alloc::{vec, vec::Vec};

use crate::Error;
use crate::numpy::SeedSequence;
use crate::state::{self, HEADER, Kind, u128_at};
use rand_core::{Infallible, TryRng, utils};
use samebits_numerics::memory;

/// The multiplier of the 128-bit congruential generator under [`Pcg64`].
const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;
/// The multiplier under [`Pcg64Dxsm`].
const CHEAP_MULTIPLIER: u128 = 0xda94_2042_e4dd_58b5;
/// Distance of NumPy's `jumped`: 2^128 divided by the golden ratio.
const JUMP: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

/// Domains of derived generators, as the first word of a spawn key.
const SPLIT: u32 = 0x7370_6c69;
const FOLD: u32 = 0x666f_6c64;

macro_rules! pcg {
    (
        $(#[$doc:meta])*
        $type:ident, $inner:ty, $step:expr, $kind:expr, $op:literal, $first:literal
    ) => {
        $(#[$doc])*
        ///
        /// The position is (`seed`, `stream`, `offset`): the state at offset 0, the constant of the
        /// recurrence without its last bit, which is always 1, and the number of words drawn,
        /// modulo the period 2^128.
        ///
        /// # Determinism
        ///
        /// Fixed forever.
        ///
        /// # Examples
        ///
        /// ```
        /// use rand_core::Rng;
        #[doc = concat!("use samebits_rng::", stringify!($type), ";")]
        ///
        #[doc = concat!("let mut generator = ", stringify!($type), "::new(0);")]
        #[doc = concat!("assert_eq!(generator.next_u64(), ", $first, ");")]
        /// assert_eq!(generator.offset(), 1);
        ///
        #[doc = concat!("let restored = ", stringify!($type), "::from_bytes(&generator.to_bytes())?;")]
        /// assert_eq!(restored, generator);
        /// # Ok::<(), samebits_rng::Error>(())
        /// ```
        #[derive(Clone, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(try_from = "Position", into = "Position"))]
        pub struct $type {
            position: Position,
            inner: $inner,
        }

        impl $type {
            /// The number of bytes that `to_bytes` returns.
            pub const STATE_BYTES: usize = HEADER + 48;

            /// Creates the generator that NumPy seeds with the whole number `seed`.
            pub fn new(seed: u64) -> $type {
                $type::from_seed_sequence(&SeedSequence::new(seed))
            }

            /// Creates the generator that NumPy seeds with this sequence: of its first four 64-bit
            /// words, two are added to the state and two are the stream.
            pub fn from_seed_sequence(sequence: &SeedSequence) -> $type {
                let words: [u64; 4] = sequence.state();
                let wide = |i: usize| u128::from(words[i]) << 64 | u128::from(words[i + 1]);
                let increment = wide(2) << 1 | 1;
                // NumPy steps once from zero, adds, and steps again, for both generators with the
                // multiplier of the first.
                let state = wide(0).wrapping_add(increment);
                let state = state.wrapping_mul(MULTIPLIER).wrapping_add(increment);
                $type::at(Position { seed: state, stream: increment >> 1, offset: 0 })
            }

            /// Creates the generator with this state and the low 127 bits of this stream.
            pub fn with_parts(seed: u128, stream: u128) -> $type {
                $type::at(Position { seed, stream: stream & (u128::MAX >> 1), offset: 0 })
            }

            /// Returns the state at offset 0.
            pub const fn seed(&self) -> u128 {
                self.position.seed
            }

            /// Returns the constant of the recurrence without its last bit.
            pub const fn stream(&self) -> u128 {
                self.position.stream
            }

            /// Returns the number of 64-bit words drawn.
            pub const fn offset(&self) -> u128 {
                self.position.offset
            }

            /// Advances by `words` words, in at most 128 steps for any number.
            pub fn advance(&mut self, words: u128) {
                self.inner.advance(words);
                self.position.offset = self.position.offset.wrapping_add(words);
            }

            /// Returns the generator `jumps` times 2^128 / 1.618… words ahead, as NumPy's `jumped`.
            #[must_use]
            pub fn jumped(&self, jumps: u128) -> $type {
                let mut jumped = self.clone();
                jumped.advance(JUMP.wrapping_mul(jumps));
                jumped
            }

            /// Splits off `n` separate generators; advances by `n` words, so the next split gives
            /// different ones.
            ///
            /// Child *j* is seeded by NumPy's seed sequence with the seed and the stream as entropy
            /// and (a constant, `offset` + *j*) as spawn key. Its 255 bits of state and stream are
            /// a hash: two children overlap with a probability below 2^-60 even if there are 2^32
            /// of them and each draws 2^64 words.
            ///
            /// # Errors
            ///
            /// If there is no memory for `n` generators. The generator is then unchanged.
            pub fn split(&mut self, n: usize) -> Result<Vec<$type>, Error> {
                let first = self.position.offset;
                let children = (0..n).map(|j| self.child(SPLIT, first.wrapping_add(j as u128)));
                let op = concat!(stringify!($type), "::split");
                let children = memory::collected(children).map_err(Error::memory(op))?;
                self.advance(n as u128);
                Ok(children)
            }

            /// Returns the generator of item `i`. Neither changes `self` nor depends on its
            /// position. Hashed as in `split`, and different from the children of `split`.
            #[must_use]
            pub fn fold_in(&self, i: u64) -> $type {
                self.child(FOLD, u128::from(i))
            }

            /// Serialises the state: a header as in [`Generator`](crate::Generator::to_bytes), then
            /// seed, stream and offset, each in 16 little-endian bytes.
            #[must_use]
            pub fn to_bytes(&self) -> [u8; $type::STATE_BYTES] {
                let mut bytes = [0; $type::STATE_BYTES];
                bytes[8..24].copy_from_slice(&self.position.seed.to_le_bytes());
                bytes[24..40].copy_from_slice(&self.position.stream.to_le_bytes());
                bytes[40..56].copy_from_slice(&self.position.offset.to_le_bytes());
                state::seal($kind, &mut bytes);
                bytes
            }

            /// Restores the generator whose `to_bytes` returned `bytes`.
            ///
            /// # Errors
            ///
            /// If the bytes have the wrong length, come from another library or generator, have
            /// another version, or are damaged.
            pub fn from_bytes(bytes: &[u8]) -> Result<$type, Error> {
                let fields = state::open($op, $kind, $type::STATE_BYTES, bytes)?;
                let position = Position {
                    seed: u128_at(fields, 0),
                    stream: u128_at(fields, 16),
                    offset: u128_at(fields, 32),
                };
                $type::try_from(position).map_err(|what| Error::StateValue { op: $op, what })
            }

            fn at(position: Position) -> $type {
                // `rand_pcg` adds the increment and steps before the first word; both are undone
                // here so that the state is the requested one.
                let increment = position.stream << 1 | 1;
                let stepped = position.seed.wrapping_sub(increment).wrapping_mul(inverse($step));
                let mut inner = <$inner>::new(stepped.wrapping_sub(increment), position.stream);
                inner.advance(position.offset);
                $type { position, inner }
            }

            fn child(&self, domain: u32, index: u128) -> $type {
                let mut entropy = words(self.position.seed).to_vec();
                entropy.extend(words(self.position.stream));
                let mut key = vec![domain];
                key.extend(words(index));
                $type::from_seed_sequence(&SeedSequence::with_spawn_key(&entropy, &key))
            }
        }

        impl core::fmt::Debug for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct(stringify!($type))
                    .field("seed", &self.position.seed)
                    .field("stream", &self.position.stream)
                    .field("offset", &self.position.offset)
                    .finish()
            }
        }

        impl TryRng for $type {
            type Error = Infallible;

            #[inline]
            fn try_next_u32(&mut self) -> Result<u32, Infallible> {
                self.try_next_u64().map(|word| word as u32)
            }

            #[inline]
            fn try_next_u64(&mut self) -> Result<u64, Infallible> {
                self.position.offset = self.position.offset.wrapping_add(1);
                self.inner.try_next_u64()
            }

            #[inline]
            fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
                utils::fill_bytes_via_next_word(bytes, || self.try_next_u64())
            }
        }

        impl TryFrom<Position> for $type {
            type Error = &'static str;

            fn try_from(position: Position) -> Result<$type, &'static str> {
                if position.stream >> 127 != 0 {
                    return Err("a stream of more than 127 bits");
                }
                Ok($type::at(position))
            }
        }

        impl From<$type> for Position {
            fn from(generator: $type) -> Position {
                generator.position
            }
        }
    };
}

pcg! {
    /// PCG64: XSL-RR over a 128-bit congruential generator, NumPy's default.
    Pcg64, rand_pcg::Lcg128Xsl64, MULTIPLIER, Kind::Pcg64, "Pcg64::from_bytes", "11749869230777074271"
}

pcg! {
    /// PCG64DXSM: a stronger output function and a cheaper step than [`Pcg64`](crate::Pcg64),
    /// NumPy's choice for many streams.
    Pcg64Dxsm, rand_pcg::Lcg128CmDxsm64, CHEAP_MULTIPLIER, Kind::Pcg64Dxsm,
    "Pcg64Dxsm::from_bytes", "15672045205194312304"
}

/// Saved position of a generator.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
struct Position {
    seed: u128,
    stream: u128,
    offset: u128,
}

/// Returns the inverse of an odd number modulo 2^128, by Newton's iteration.
const fn inverse(x: u128) -> u128 {
    // x is its own inverse in the last three bits; each step doubles the number of correct bits.
    let mut y = x;
    let mut step = 0;
    while step < 6 {
        y = y.wrapping_mul(2u128.wrapping_sub(x.wrapping_mul(y)));
        step += 1;
    }
    y
}

/// Returns the 32-bit words of a number, lowest first.
fn words(x: u128) -> [u32; 4] {
    core::array::from_fn(|i| (x >> (32 * i)) as u32)
}
