//! Bit fields and byte permutations of one lane.

use crate::op::PrmtMode;

pub(super) fn field_mask(len: u32) -> u32 {
    ((1u64 << len) - 1) as u32
}

pub(super) fn byte(word: u32, index: u32, signed: bool) -> i32 {
    let byte = (word >> (8 * index)) as u8;
    if signed { i32::from(byte as i8) } else { i32::from(byte) }
}

#[inline(always)]
pub(super) fn lop3(table: u8, x: u32, y: u32, z: u32) -> u32 {
    let mut out = 0;
    for row in 0..8 {
        if table >> row & 1 == 1 {
            let p = if row & 4 != 0 { x } else { !x };
            let q = if row & 2 != 0 { y } else { !y };
            let r = if row & 1 != 0 { z } else { !z };
            out |= p & q & r;
        }
    }
    out
}

pub(super) fn prmt(mode: PrmtMode, x: u32, y: u32, selector: u32) -> u32 {
    let bytes = (u64::from(y) << 32 | u64::from(x)).to_le_bytes();
    let n = selector & 3;
    let pick = |i: u32| -> u8 {
        match mode {
            PrmtMode::Index => {
                let select = selector >> (4 * i) & 15;
                let value = bytes[(select & 7) as usize];
                // The top bit of the selector replicates the sign of the byte.
                if select & 8 != 0 { (value as i8 >> 7) as u8 } else { value }
            }
            PrmtMode::F4e => bytes[((n + i) & 7) as usize],
            PrmtMode::B4e => bytes[(n.wrapping_sub(i) & 7) as usize],
            PrmtMode::Rc8 => bytes[n as usize],
            PrmtMode::Ecl => bytes[n.max(i) as usize],
            PrmtMode::Ecr => bytes[n.min(i) as usize],
            PrmtMode::Rc16 => bytes[(2 * (n & 1) + (i & 1)) as usize],
        }
    };
    u32::from_le_bytes([pick(0), pick(1), pick(2), pick(3)])
}

/// Returns the n-th set bit counted from `base`, by the pseudocode of the PTX ISA.
pub(super) fn fns(value: u32, base: u32, offset: u32) -> u32 {
    let base = (base & 31) as i32;
    let offset = offset as i32;
    let (mut left, step) = match offset {
        0 => return if value >> base & 1 == 1 { base as u32 } else { !0 },
        1.. => (offset - 1, 1),
        _ => (offset.saturating_neg() - 1, -1),
    };
    let mut at = base;
    while (0..32).contains(&at) {
        if value >> at & 1 == 1 {
            if left == 0 {
                return at as u32;
            }
            left -= 1;
        }
        at += step;
    }
    !0
}

pub(super) fn bfe(value: u64, at: u32, len: u32, width: u32, signed: bool) -> u64 {
    let (at, len) = (at & 0xff, len & 0xff);
    let msb = width - 1;
    let sign_at = (at + len).wrapping_sub(1).min(msb);
    let sign = if signed && len > 0 { value >> sign_at & 1 } else { 0 };
    let mut out = if sign == 1 { !0 } else { 0u64 };
    for i in 0..len.min(width) {
        if at + i > msb {
            break;
        }
        out = (out & !(1 << i)) | (value >> (at + i) & 1) << i;
    }
    out
}

pub(super) fn bfi(insert: u64, base: u64, at: u32, len: u32, width: u32) -> u64 {
    let (at, len) = (at & 0xff, len & 0xff);
    let end = (at + len).min(width);
    if at >= end {
        return base;
    }
    let count = end - at;
    let field = (u64::MAX >> (64 - count)) << at;
    (base & !field) | (insert << at & field)
}

pub(super) fn bfind(signed_value: i64, bits: u64, width: u32, signed: bool, shift: bool) -> u32 {
    let value = if signed && signed_value < 0 { !signed_value as u64 } else { bits };
    if value == 0 {
        return !0;
    }
    let position = 63 - value.leading_zeros();
    if shift { width - 1 - position } else { position }
}
