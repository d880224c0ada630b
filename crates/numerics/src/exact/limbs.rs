//! The fixed-point integer behind the exact sums.

use crate::nan::CANONICAL_F64;

/// The number of addends before carries are propagated. Each changes a limb by less than 2^32, so a
/// limb stays below 2^32 + 2^30 * 2^32 < 2^63.
const ADDENDS_PER_CARRY: u32 = 1 << 30;

/// A signed integer of `N` limbs. Limb `i` weighs 2^(32 i) but has 64 bits: its upper half collects
/// carries that are still to be propagated.
///
/// After propagation the top limb is below 2^31 in magnitude. A larger integer becomes the infinity
/// of its sign.
#[derive(Clone, Debug)]
pub(super) struct Limbs<const N: usize> {
    limbs: [i64; N],
    /// The number of addends since the last carry propagation.
    pending: u32,
    flags: Flags,
}

/// The non-finite values among the addends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flags(u8);

impl Flags {
    const POSITIVE: Flags = Flags(1);
    const NEGATIVE: Flags = Flags(2);
    const NAN: Flags = Flags(4);

    /// Returns the flag of an infinity of this sign, or of a NaN.
    #[inline]
    pub(super) fn of(negative: bool, nan: bool) -> Flags {
        match (nan, negative) {
            (true, _) => Flags::NAN,
            (false, true) => Flags::NEGATIVE,
            (false, false) => Flags::POSITIVE,
        }
    }
}

impl<const N: usize> Default for Limbs<N> {
    fn default() -> Self {
        Limbs { limbs: [0; N], pending: 0, flags: Flags::default() }
    }
}

impl<const N: usize> Limbs<N> {
    /// Adds `significand` (below 2^53) times 2^`shift`, or subtracts it if `negative`.
    #[inline]
    pub(super) fn add(&mut self, significand: u64, shift: u32, negative: bool) {
        let first = (shift / 32) as usize;
        let spread = u128::from(significand) << (shift % 32);
        // Two's complement negation without a branch: the sign of random data is unpredictable.
        let mask = -i64::from(negative);
        for part in 0..3 {
            let piece = ((spread >> (32 * part)) & 0xffff_ffff) as i64;
            // The top limbs exist for carries only; no addend reaches them.
            if let Some(limb) = self.limbs.get_mut(first + part) {
                *limb += (piece ^ mask) - mask;
            }
        }
        self.pending += 1;
        if self.pending == ADDENDS_PER_CARRY {
            self.carry();
        }
    }

    /// Adds as [`add`](Limbs::add), for a significand below 2^24, which touches only two limbs.
    #[inline]
    pub(super) fn add_narrow(&mut self, significand: u32, shift: u32, negative: bool) {
        let first = (shift / 32) as usize;
        let spread = u64::from(significand) << (shift % 32);
        let mask = -i64::from(negative);
        if let Some([low, high]) = self.limbs.get_mut(first..first + 2) {
            *low += ((spread & 0xffff_ffff) as i64 ^ mask) - mask;
            *high += ((spread >> 32) as i64 ^ mask) - mask;
        }
        self.pending += 1;
        if self.pending == ADDENDS_PER_CARRY {
            self.carry();
        }
    }

    /// Adds a non-finite value.
    #[inline]
    pub(super) fn flag(&mut self, flag: Flags) {
        self.flags.0 |= flag.0;
    }

    pub(super) fn merge(&mut self, other: &Limbs<N>) {
        if self.pending + other.pending >= ADDENDS_PER_CARRY - 1 {
            self.carry();
            let mut carried = other.clone();
            carried.carry();
            for (limb, addend) in self.limbs.iter_mut().zip(carried.limbs) {
                *limb += addend;
            }
            self.pending = 2;
        } else {
            for (limb, addend) in self.limbs.iter_mut().zip(other.limbs) {
                *limb += addend;
            }
            // After a carry a limb holds up to 2^32, as much as one more addend.
            self.pending += other.pending + 1;
        }
        self.flags.0 |= other.flags.0;
    }

    /// Returns the sum: finite, or the special value that the flags determine.
    pub(super) fn value(&self) -> Value<N> {
        let mut limbs = self.clone();
        limbs.carry();
        match limbs.flags {
            Flags(0) => {}
            Flags::POSITIVE => return Value::Special(f64::INFINITY),
            Flags::NEGATIVE => return Value::Special(f64::NEG_INFINITY),
            _ => return Value::Special(CANONICAL_F64),
        }
        let negative = limbs.limbs[N - 1] < 0;
        if negative {
            for limb in &mut limbs.limbs {
                *limb = -*limb;
            }
            limbs.carry();
        }
        Value::Finite { negative, magnitude: limbs.limbs.map(|limb| limb as u32) }
    }

    /// Propagates carries, so that every limb but the last is in 0..2^32.
    #[cold]
    fn carry(&mut self) {
        let mut carry = 0;
        for limb in &mut self.limbs[..N - 1] {
            let value = *limb + carry;
            *limb = value & 0xffff_ffff;
            carry = value >> 32;
        }
        let top = &mut self.limbs[N - 1];
        *top += carry;
        if top.unsigned_abs() >> 31 != 0 {
            let overflow = Flags::of(*top < 0, false);
            self.limbs = [0; N];
            self.flag(overflow);
        }
        self.pending = 0;
    }
}

/// The value of a sum.
pub(super) enum Value<const N: usize> {
    /// A finite number. The magnitude is in 32-bit digits, lowest first.
    Finite { negative: bool, magnitude: [u32; N] },
    /// An infinity or NaN.
    Special(f64),
}

/// Rounds `magnitude` to `digits` significant bits, ties to even.
///
/// Returns the significand and its exponent of two, or `None` for zero. The significand has exactly
/// `digits` bits, with two exceptions: fewer if the exponent is 0, and the value 2^`digits` if
/// rounding carried into a new bit.
pub(super) fn round(magnitude: &[u32], digits: u32) -> Option<(u64, u32)> {
    let top = magnitude.iter().rposition(|&digit| digit != 0)?;
    let length = 32 * top as u32 + (32 - magnitude[top].leading_zeros());
    let shift = length.saturating_sub(digits);
    let first = (shift / 32) as usize;
    let mut window: u128 = 0;
    for (place, &digit) in magnitude[first..=top].iter().enumerate() {
        window |= u128::from(digit) << (32 * place);
    }
    let significand = (window >> (shift % 32)) as u64;
    if shift == 0 {
        return Some((significand, 0));
    }
    let bit_below = shift - 1;
    let half = magnitude[(bit_below / 32) as usize] >> (bit_below % 32) & 1 == 1;
    let sticky_digit = (bit_below / 32) as usize;
    let sticky = magnitude[..sticky_digit].iter().any(|&digit| digit != 0)
        || magnitude[sticky_digit] & ((1u32 << (bit_below % 32)) - 1) != 0;
    let up = half && (sticky || significand & 1 == 1);
    Some((significand + u64::from(up), shift))
}
