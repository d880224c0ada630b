//! NumPy's `SeedSequence`.

use crate::Error;
use serde::{Deserialize, Serialize};

/// NumPy's `SeedSequence`: hashes entropy of any size into the states of generators, and spawns
/// children that hash to others.
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
/// assert_eq!(sequence.generate_state_u64(1), [0x50312a63d516e24a]);
/// let children = sequence.spawn(2);
/// assert_eq!(children[1].spawn_key(), [1]);
/// ```
///
/// # References
///
/// M. E. O'Neill, *Developing a seed_seq alternative*, 2015; NumPy's `numpy.random.SeedSequence`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeedSequence {
    entropy: Vec<u32>,
    spawn_key: Vec<u32>,
    spawned: u32,
}

impl SeedSequence {
    /// The sequence of a whole number.
    pub fn new(seed: u64) -> SeedSequence {
        SeedSequence::from_words(&[seed as u32, (seed >> 32) as u32])
    }

    /// The sequence of a whole number given by its 32-bit words, lowest first.
    ///
    /// Words of zero at the end do not count, as they do not in NumPy's numbers.
    pub fn from_words(words: &[u32]) -> SeedSequence {
        let length = words.iter().rposition(|word| *word != 0).map_or(1, |last| last + 1);
        let mut entropy = words[..length.min(words.len())].to_vec();
        if entropy.is_empty() {
            entropy.push(0);
        }
        SeedSequence { entropy, spawn_key: Vec::new(), spawned: 0 }
    }

    /// The sequence of a whole number of any size, in decimal.
    ///
    /// # Errors
    ///
    /// `text` is empty or holds something other than digits.
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
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            let op = "SeedSequence::from_decimal";
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

    /// The sequence of these words of entropy, all of which count, under this spawn key.
    pub fn with_spawn_key(entropy: &[u32], spawn_key: &[u32]) -> SeedSequence {
        SeedSequence { entropy: entropy.to_vec(), spawn_key: spawn_key.to_vec(), spawned: 0 }
    }

    /// The words of the entropy, lowest first.
    pub fn entropy(&self) -> &[u32] {
        &self.entropy
    }

    /// The numbers of the sequence and its ancestors among their siblings; empty for one that
    /// was not spawned.
    pub fn spawn_key(&self) -> &[u32] {
        &self.spawn_key
    }

    /// How many children have been spawned.
    pub const fn spawned(&self) -> u32 {
        self.spawned
    }

    /// The next `n` children. Child *i* differs from this sequence by *i* at the end of its
    /// spawn key.
    #[must_use]
    pub fn spawn(&mut self, n: u32) -> Vec<SeedSequence> {
        let first = self.spawned;
        self.spawned = first.wrapping_add(n);
        (0..n)
            .map(|i| {
                let mut spawn_key = self.spawn_key.clone();
                spawn_key.push(first.wrapping_add(i));
                SeedSequence { entropy: self.entropy.clone(), spawn_key, spawned: 0 }
            })
            .collect()
    }

    /// `n` 32-bit words of state. A longer state begins with the shorter one.
    pub fn generate_state_u32(&self, n: usize) -> Vec<u32> {
        let pool = self.pool();
        let mut hash = INIT_B;
        (0..n)
            .map(|i| {
                let mut word = pool[i % POOL] ^ hash;
                hash = hash.wrapping_mul(MULT_B);
                word = word.wrapping_mul(hash);
                word ^ word >> SHIFT
            })
            .collect()
    }

    /// `n` 64-bit words of state: pairs of the 32-bit words, the low half first.
    pub fn generate_state_u64(&self, n: usize) -> Vec<u64> {
        let words = self.generate_state_u32(2 * n);
        words.chunks_exact(2).map(|pair| u64::from(pair[0]) | u64::from(pair[1]) << 32).collect()
    }

    fn pool(&self) -> [u32; POOL] {
        let mut words = self.entropy.clone();
        if !self.spawn_key.is_empty() {
            // Without the padding, a child of short entropy could equal a parent of longer.
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

/// Words in the pool.
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
