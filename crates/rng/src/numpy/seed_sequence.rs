//! NumPy's `SeedSequence`.

use alloc::vec::Vec;

use crate::Error;
use crate::draw::pair;
use samebits_numerics::memory;

/// NumPy's `SeedSequence`: hashes entropy of any size into the states of generators, and spawns
/// children with different hashes.
///
/// # Determinism
///
/// Fixed forever: the same words as NumPy 1.19 and later.
///
/// # Examples
///
/// ```
/// use samebits_rng::numpy::SeedSequence;
///
/// let mut sequence = SeedSequence::new(0xdeadbeaf);
/// assert_eq!(sequence.generate_state_u64(1)?, [0x50312a63d516e24a]);
/// let children = sequence.spawn(2)?;
/// assert_eq!(children[1].spawn_key(), [1]);
/// # Ok::<(), samebits_rng::Error>(())
/// ```
///
/// # References
///
/// M. E. O'Neill, *Developing a seed_seq alternative*, 2015; NumPy's `numpy.random.SeedSequence`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct SeedSequence {
    entropy: Vec<u32>,
    spawn_key: Vec<u32>,
    spawned: u32,
}

impl SeedSequence {
    /// Creates the sequence of a whole number.
    pub fn new(seed: u64) -> SeedSequence {
        SeedSequence::from_words(&[seed as u32, (seed >> 32) as u32])
    }

    /// Creates the sequence of a whole number given by its 32-bit words, lowest first.
    ///
    /// Trailing zero words are dropped, as in NumPy's numbers.
    pub fn from_words(words: &[u32]) -> SeedSequence {
        let length = words.iter().rposition(|word| *word != 0).map_or(1, |last| last + 1);
        let mut entropy = words[..length.min(words.len())].to_vec();
        if entropy.is_empty() {
            entropy.push(0);
        }
        SeedSequence { entropy, spawn_key: Vec::new(), spawned: 0 }
    }

    /// Creates the sequence of a whole number in decimal, of up to 4300 digits, Python's limit for
    /// `int`.
    ///
    /// # Errors
    ///
    /// If `text` is empty, too long, or holds other characters than digits.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_rng::numpy::SeedSequence;
    ///
    /// let sequence = SeedSequence::from_decimal("18446744073709551616")?;
    /// assert_eq!(sequence, SeedSequence::from_words(&[0, 0, 1]));
    /// # Ok::<(), samebits_rng::Error>(())
    /// ```
    pub fn from_decimal(text: &str) -> Result<SeedSequence, Error> {
        let op = "SeedSequence::from_decimal";
        if text.len() > MOST_DIGITS {
            let needed = "at most 4300, as in Python";
            return Err(Error::parameter(op, "the number of digits", text.len(), needed));
        }
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Error::parameter(op, "text", text, "a whole number in decimal digits"));
        }
        let mut words = Vec::new();
        for digit in text.bytes() {
            let mut carry = u64::from(digit - b'0');
            for word in &mut words {
                carry += u64::from(*word) * 10;
                *word = carry as u32;
                carry >>= 32;
            }
            if carry > 0 {
                words.push(carry as u32);
            }
        }
        Ok(SeedSequence::from_words(&words))
    }

    /// Creates the sequence of these words of entropy, including trailing zeros, with this spawn
    /// key.
    pub fn with_spawn_key(entropy: &[u32], spawn_key: &[u32]) -> SeedSequence {
        SeedSequence { entropy: entropy.to_vec(), spawn_key: spawn_key.to_vec(), spawned: 0 }
    }

    /// Returns the words of the entropy, lowest first.
    pub fn entropy(&self) -> &[u32] {
        &self.entropy
    }

    /// Returns the spawn key: the indices of the sequence and its ancestors among their siblings;
    /// empty for a sequence that was not spawned.
    pub fn spawn_key(&self) -> &[u32] {
        &self.spawn_key
    }

    /// Returns the number of children spawned.
    pub const fn spawned(&self) -> u32 {
        self.spawned
    }

    /// Spawns the next `n` children. Child *i* has this sequence's spawn key with *i* appended.
    ///
    /// # Errors
    ///
    /// If there is no memory for `n` children. None is then spawned.
    pub fn spawn(&mut self, n: u32) -> Result<Vec<SeedSequence>, Error> {
        let out_of_memory = Error::memory("SeedSequence::spawn");
        let mut children = memory::with_capacity(n as usize).map_err(&out_of_memory)?;
        for i in 0..n {
            let entropy =
                memory::collected(self.entropy.iter().copied()).map_err(&out_of_memory)?;
            let mut spawn_key =
                memory::with_capacity(self.spawn_key.len() + 1).map_err(&out_of_memory)?;
            spawn_key.extend(&self.spawn_key);
            spawn_key.push(self.spawned.wrapping_add(i));
            children.push(SeedSequence { entropy, spawn_key, spawned: 0 });
        }
        self.spawned = self.spawned.wrapping_add(n);
        Ok(children)
    }

    /// Returns `n` 32-bit words of state. A longer state begins with the shorter one.
    ///
    /// # Errors
    ///
    /// If there is no memory for `n` words.
    pub fn generate_state_u32(&self, n: usize) -> Result<Vec<u32>, Error> {
        let mut next = self.words();
        memory::collected((0..n).map(|_| next()))
            .map_err(Error::memory("SeedSequence::generate_state_u32"))
    }

    /// Returns `n` 64-bit words of state: pairs of the 32-bit words, the low half first.
    ///
    /// # Errors
    ///
    /// If there is no memory for `n` words.
    pub fn generate_state_u64(&self, n: usize) -> Result<Vec<u64>, Error> {
        let mut next = self.words64();
        memory::collected((0..n).map(|_| next()))
            .map_err(Error::memory("SeedSequence::generate_state_u64"))
    }

    /// Returns the first words of [`generate_state_u32`](SeedSequence::generate_state_u32), as an
    /// array.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_rng::numpy::SeedSequence;
    ///
    /// let sequence = SeedSequence::new(42);
    /// assert_eq!(sequence.state_u32::<4>()[..], sequence.generate_state_u32(4)?);
    /// # Ok::<(), samebits_rng::Error>(())
    /// ```
    pub fn state_u32<const N: usize>(&self) -> [u32; N] {
        let mut next = self.words();
        core::array::from_fn(|_| next())
    }

    /// Returns the first words of [`generate_state_u64`](SeedSequence::generate_state_u64).
    pub(crate) fn state<const N: usize>(&self) -> [u64; N] {
        let mut next = self.words64();
        core::array::from_fn(|_| next())
    }

    /// Returns a function that gives the next word of state at each call.
    fn words(&self) -> impl FnMut() -> u32 + use<> {
        let pool = self.pool();
        let (mut hash, mut i) = (INIT_B, 0);
        move || {
            let mut word = pool[i % POOL] ^ hash;
            hash = hash.wrapping_mul(MULT_B);
            word = word.wrapping_mul(hash);
            i += 1;
            word ^ word >> SHIFT
        }
    }

    /// Returns a function that gives the next 64-bit word of state at each call.
    fn words64(&self) -> impl FnMut() -> u64 + use<> {
        let mut next = self.words();
        move || pair(next(), next())
    }

    fn pool(&self) -> [u32; POOL] {
        let mut words = self.entropy.clone();
        if !self.spawn_key.is_empty() {
            // Without the padding, a child with short entropy could equal a parent with longer
            // entropy.
            words.resize(words.len().max(POOL), 0);
            words.extend(&self.spawn_key);
        }
        let mut hash = INIT_A;
        let mut hashed = |mut word: u32| {
            word ^= hash;
            hash = hash.wrapping_mul(MULT_A);
            word = word.wrapping_mul(hash);
            word ^ word >> SHIFT
        };
        let mut pool = [0; POOL];
        for (i, slot) in pool.iter_mut().enumerate() {
            *slot = hashed(words.get(i).copied().unwrap_or(0));
        }
        for source in 0..POOL {
            for target in 0..POOL {
                if source != target {
                    pool[target] = mix(pool[target], hashed(pool[source]));
                }
            }
        }
        for &word in words.iter().skip(POOL) {
            for slot in &mut pool {
                *slot = mix(*slot, hashed(word));
            }
        }
        pool
    }
}

/// Limit on the digits of a number; the work grows with their square.
const MOST_DIGITS: usize = 4300;
/// The number of words in the pool.
const POOL: usize = 4;
const INIT_A: u32 = 0x43b0d7e5;
const MULT_A: u32 = 0x931e8875;
const INIT_B: u32 = 0x8b51f9dd;
const MULT_B: u32 = 0x58f38ded;
const MIX_L: u32 = 0xca01f9dd;
const MIX_R: u32 = 0x4973f715;
const SHIFT: u32 = 16;

fn mix(x: u32, y: u32) -> u32 {
    let mixed = MIX_L.wrapping_mul(x).wrapping_sub(MIX_R.wrapping_mul(y));
    mixed ^ mixed >> SHIFT
}
