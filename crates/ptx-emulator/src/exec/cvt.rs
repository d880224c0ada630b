//! Conversions over the lanes of a warp.

use super::{Context, warp::Warp};
use crate::{
    float::{self, bits32, bits64},
    op::{Convert, Dst, Round, Src, Ty},
};

pub(super) fn run(
    context: &Context<'_>,
    warp: &mut Warp,
    conversion: Convert,
    d: Dst,
    a: Src,
    mask: u32,
) {
    let Convert { to, from, round, integer, sat, ftz } = conversion;
    let plain = !sat && !ftz;
    let nearest = plain && round == Round::Nearest && integer.is_none();
    // The conversions of index arithmetic and common floats, without the general code.
    match (from, to, d, a) {
        (Ty::U32, Ty::U64, Dst::R64(d), Src::S32(a)) => {
            let out = warp.s32(context, a).map(u64::from);
            return warp.w64(d, mask, &out);
        }
        (Ty::S32, Ty::S64 | Ty::U64, Dst::R64(d), Src::S32(a)) if plain => {
            let out = warp.s32(context, a).map(|x| i64::from(x as i32) as u64);
            return warp.w64(d, mask, &out);
        }
        (Ty::U64, Ty::U32, Dst::R32(d), Src::S64(a)) if plain => {
            let out = warp.s64(context, a).map(|x| x as u32);
            return warp.w32(d, mask, &out);
        }
        (Ty::F32, Ty::F64, Dst::R64(d), Src::S32(a)) if plain && integer.is_none() => {
            let out = warp.s32(context, a).map(|x| bits64(f64::from(f32::from_bits(x))));
            return warp.w64(d, mask, &out);
        }
        (Ty::F64, Ty::F32, Dst::R32(d), Src::S64(a)) if nearest => {
            let out = warp.s64(context, a).map(|x| bits32(f64::from_bits(x) as f32));
            return warp.w32(d, mask, &out);
        }
        (Ty::U32, Ty::F32, Dst::R32(d), Src::S32(a)) if nearest => {
            let out = warp.s32(context, a).map(|x| (x as f32).to_bits());
            return warp.w32(d, mask, &out);
        }
        (Ty::S32, Ty::F32, Dst::R32(d), Src::S32(a)) if nearest => {
            let out = warp.s32(context, a).map(|x| (x as i32 as f32).to_bits());
            return warp.w32(d, mask, &out);
        }
        _ => {}
    }
    let narrow = to.bits();
    let out = super::compute::wide(context, warp, a).map(|bits| {
        let result = float::convert(conversion, bits);
        // If the register is wider than the result, the result's sign fills it. Nothing reads the
        // upper half of a 16-bit register.
        if to.is_signed() {
            ((result << (64 - narrow)) as i64 >> (64 - narrow)) as u64
        } else {
            result & (u64::MAX >> (64 - narrow))
        }
    });
    warp.write(d, mask, &out);
}
