//! Floating-point instructions: rounding, NaN, zeros, conversions.

use super::arithmetic::{check32, check64};

const NAN: u32 = 0x7fff_ffff;
const NAN64: u64 = 0x7fff_ffff_ffff_ffff;

fn f(x: f32) -> String {
    format!("0f{:08X}", x.to_bits())
}

fn d(x: f64) -> String {
    format!("0d{:016X}", x.to_bits())
}

/// Checks `op` on single-precision operands.
fn single(op: &str, operands: &[f32], wanted: u32) {
    let list: Vec<String> = operands.iter().map(|&x| f(x)).collect();
    check32(&format!("{op} %f0, {}; mov.b32 %r0, %f0;", list.join(", ")), wanted);
}

fn double(op: &str, operands: &[f64], wanted: u64) {
    let list: Vec<String> = operands.iter().map(|&x| d(x)).collect();
    check64(&format!("{op} %g0, {}; mov.b64 %d0, %g0;", list.join(", ")), wanted);
}

#[test]
fn results_that_are_nan_are_canonical() {
    let odd = f32::from_bits(0xffc1_2345);
    for op in ["add.rn.f32", "mul.rn.f32", "sub.rn.f32", "div.rn.f32", "min.f32", "max.f32"] {
        single(op, &[odd, odd], NAN);
    }
    single("fma.rn.f32", &[1.0, odd, 2.0], NAN);
    single("sqrt.rn.f32", &[-1.0], NAN);
    single("add.rn.f32", &[f32::INFINITY, f32::NEG_INFINITY], NAN);
    double("add.rn.f64", &[f64::INFINITY, f64::NEG_INFINITY], NAN64);
    double("fma.rn.f64", &[0.0, f64::INFINITY, 1.0], NAN64);
    check64(&format!("cvt.f64.f32 %g0, {}; mov.b64 %d0, %g0;", f(odd)), NAN64);
    check32(&format!("cvt.rn.f32.f64 %f0, {}; mov.b32 %r0, %f0;", d(f64::NAN)), NAN);
}

#[test]
fn extrema_order_zeros_and_skip_nan() {
    single("min.f32", &[0.0, -0.0], (-0.0f32).to_bits());
    single("min.f32", &[-0.0, 0.0], (-0.0f32).to_bits());
    single("max.f32", &[-0.0, 0.0], 0);
    single("max.f32", &[f32::NAN, 3.0], 3f32.to_bits());
    single("max.NaN.f32", &[f32::NAN, 3.0], NAN);
    double("min.f64", &[f64::NAN, -3.0], (-3f64).to_bits());
    double("max.f64", &[-0.0, 0.0], 0);
    single("neg.f32", &[0.0], 1 << 31);
    single("abs.f32", &[-2.5], 2.5f32.to_bits());
    single("copysign.f32", &[-1.0, 2.5], (-2.5f32).to_bits());
}

#[test]
fn a_fused_product_rounds_once() {
    let (a, c) = (1.0 + 1.0 / 4096.0, -1.0);
    single("fma.rn.f32", &[a, a, c], a.mul_add(a, c).to_bits());
    assert_ne!(f32::mul_add(a, a, c), a * a + c);
    single("mul.rn.f32", &[a, a], (a * a).to_bits());
    let (a, c) = (1.0 + 1.0 / 134_217_728.0, -1.0);
    assert_ne!(f64::mul_add(a, a, c), a * a + c);
    double("fma.rn.f64", &[a, a, c], a.mul_add(a, c).to_bits());
    // Subnormal results keep their bits.
    let tiny = f32::from_bits(3);
    single("mul.rn.f32", &[tiny, 0.5], 2);
    single("fma.rn.f32", &[tiny, 0.5, 0.0], 2);
    // A tie that only the exact sum breaks.
    let (x, y, z) = (1.0 + f32::EPSILON, 1.0, f32::from_bits(1));
    single("fma.rn.f32", &[x, y, z], x.mul_add(y, z).to_bits());
}

#[test]
fn rounding_directions() {
    let third = 1.0f32 / 3.0;
    // The nearest number lies above a third.
    single("div.rn.f32", &[1.0, 3.0], third.to_bits());
    single("div.rz.f32", &[1.0, 3.0], third.to_bits() - 1);
    single("div.rp.f32", &[1.0, 3.0], third.to_bits());
    single("div.rm.f32", &[-1.0, 3.0], (-third).to_bits());
    single("div.rp.f32", &[-1.0, 3.0], (-third).to_bits() - 1);
    single(
        "sqrt.rp.f32",
        &[2.0],
        2f32.sqrt().to_bits() + u32::from(2f32.sqrt() as f64 * (2f32.sqrt() as f64) < 2.0),
    );
    single("add.rz.f32", &[1.0, 1e-20], 1f32.to_bits());
    single("add.rp.f32", &[1.0, 1e-20], 1f32.to_bits() + 1);
    single("add.rm.f32", &[1.0, -1e-20], 1f32.to_bits() - 1);
    single("add.rm.f32", &[1.0, -1.0], 1 << 31);
    single("add.rp.f32", &[1.0, -1.0], 0);
    single("mul.rz.f32", &[f32::MAX, 2.0], f32::MAX.to_bits());
    single("mul.rp.f32", &[f32::MAX, 2.0], f32::INFINITY.to_bits());
    single("mul.rp.f32", &[-f32::MAX, 2.0], (-f32::MAX).to_bits());
    single("mul.rp.f32", &[f32::from_bits(1), 0.1], 1);
    single("mul.rm.f32", &[-f32::from_bits(1), 0.1], 0x8000_0001);
    single("fma.rm.f32", &[1.0, 1.0, -1e-30], 1f32.to_bits() - 1);
    double("add.rp.f64", &[1.0, 1e-300], 1f64.to_bits() + 1);
    double("mul.rm.f64", &[-5e-324, 0.25], 0x8000_0000_0000_0001);
    double("fma.rz.f64", &[1.0 + f64::EPSILON, 1.0 + f64::EPSILON, -5e-324], {
        (1.0 + 2.0 * f64::EPSILON).to_bits()
    });
    double("rcp.rp.f64", &[3.0], (1.0f64 / 3.0).to_bits() + 1);
    single("add.rn.sat.f32", &[1.0, 1.0], 1f32.to_bits());
    single("add.rn.sat.f32", &[f32::NAN, 1.0], 0);
    single("add.rn.sat.f32", &[-3.0, 1.0], 0);
}

#[test]
fn comparisons_know_unordered_operands() {
    let nan = f(f32::NAN);
    for (cmp, wanted) in [
        ("eq", 0),
        ("ne", 0),
        ("lt", 0),
        ("ge", 0),
        ("equ", 1),
        ("neu", 1),
        ("ltu", 1),
        ("geu", 1),
        ("num", 0),
        ("nan", 1),
    ] {
        let body = format!("setp.{cmp}.f32 %p1, {nan}, 0f3F800000; selp.u32 %r0, 1, 0, %p1;");
        check32(&body, wanted);
    }
    check32("setp.eq.f32 %p1, 0f00000000, 0f80000000; selp.u32 %r0, 1, 0, %p1;", 1);
    check32("testp.subnormal.f32 %p1, 0f00000001; selp.u32 %r0, 1, 0, %p1;", 1);
    check32("testp.finite.f64 %p1, 0d7FF0000000000000; selp.u32 %r0, 1, 0, %p1;", 0);
}

#[test]
fn floats_become_integers() {
    let to = |ty: &str, from: &str, x: String, wanted: u64| {
        let (d, wide) = if ty.ends_with("64") { ("%d0", true) } else { ("%r0", false) };
        let body = format!("cvt.{ty}.{from} {d}, {x};");
        if wide { check64(&body, wanted) } else { check32(&body, wanted as u32) }
    };
    for (round, wanted) in [("rni", 2), ("rzi", 2), ("rmi", 2), ("rpi", 3)] {
        to(&format!("{round}.s32"), "f32", f(2.5), wanted);
    }
    to("rni.s32", "f32", f(3.5), 4);
    to("rmi.s32", "f32", f(-2.5), -3i32 as u32 as u64);
    to("rzi.s32", "f32", f(1e20), 0x7fff_ffff);
    to("rzi.s32", "f32", f(-1e20), 0x8000_0000);
    to("rzi.u32", "f32", f(-1.0), 0);
    to("rzi.u32", "f64", d(1e20), 0xffff_ffff);
    to("rzi.u8", "f32", f(300.0), 255);
    to("rzi.s8", "f32", f(-300.0), -128i32 as u32 as u64);
    // NaN: zero, unless 64 bits are involved.
    to("rzi.s32", "f32", f(f32::NAN), 0);
    to("rzi.s32", "f64", d(f64::NAN), 1 << 31);
    to("rzi.u64", "f32", f(f32::NAN), 1 << 63);
    to("rzi.s64", "f64", d(f64::NAN), 1 << 63);
    to("rzi.s64", "f64", d(-1e30), 1 << 63);
}

#[test]
fn integers_and_floats_become_floats() {
    let odd = (1u64 << 40) + (1 << 15) + 1;
    let up = ((1u64 << 40) + (1 << 17)) as f32;
    for (round, wanted) in [("rn", 2f32.powi_exact(40)), ("rz", 2f32.powi_exact(40)), ("rp", up)] {
        check32(&format!("cvt.{round}.f32.u64 %f0, {odd}; mov.b32 %r0, %f0;"), wanted.to_bits());
    }
    check32("cvt.rn.f32.s32 %f0, -3; mov.b32 %r0, %f0;", (-3f32).to_bits());
    check32("cvt.rn.f32.u32 %f0, -1; mov.b32 %r0, %f0;", (u32::MAX as f32).to_bits());
    check64("cvt.rn.f64.u64 %g0, -1; mov.b64 %d0, %g0;", (u64::MAX as f64).to_bits());
    check64("cvt.rz.f64.u64 %g0, -1; mov.b64 %d0, %g0;", (u64::MAX as f64).to_bits() - 1);
    let x = 1.0 + 1e-10;
    for (round, wanted) in [("rn", 0), ("rz", 0), ("rm", 0), ("rp", 1)] {
        let body = format!("cvt.{round}.f32.f64 %f0, {}; mov.b32 %r0, %f0;", d(x));
        check32(&body, 1f32.to_bits() + wanted);
    }
    for (round, wanted) in [("rni", 2.0), ("rzi", 2.0), ("rpi", 3.0), ("rmi", 2.0)] {
        let body = format!("cvt.{round}.f32.f32 %f0, {}; mov.b32 %r0, %f0;", f(2.5));
        check32(&body, f32::to_bits(wanted));
    }
    check32(&format!("cvt.rni.f32.f32 %f0, {}; mov.b32 %r0, %f0;", f(-0.25)), 1 << 31);
    check32(&format!("cvt.sat.f32.f32 %f0, {}; mov.b32 %r0, %f0;", f(2.5)), 1f32.to_bits());
}

trait PowerOfTwo {
    fn powi_exact(self, n: u32) -> f32;
}

impl PowerOfTwo for f32 {
    fn powi_exact(self, n: u32) -> f32 {
        (0..n).fold(1.0, |product, _| product * self)
    }
}

#[test]
fn integers_become_narrower_and_wider() {
    check32("cvt.s32.s8 %r0, 0x1ff;", !0);
    check32("cvt.u32.u8 %r0, 0x1ff;", 0xff);
    check64("cvt.s64.s32 %d0, -5;", -5i64 as u64);
    check64("cvt.u64.u32 %d0, -5;", 0xffff_fffb);
    check32("cvt.u32.u64 %r0, 0x500000007;", 7);
    check32("cvt.sat.u32.s32 %r0, -5;", 0);
    check32("cvt.sat.s8.s32 %r0, 300;", 127);
    check32("mov.u32 %r1, 0x12345; cvt.u16.u32 %h1, %r1; cvt.u32.u16 %r0, %h1;", 0x2345);
}

#[test]
fn half_precision_conversions() {
    let half = |op: &str, x: f32, wanted: u32| {
        check32(&format!("{op} %h1, {}; cvt.u32.u16 %r0, %h1;", f(x)), wanted);
    };
    half("cvt.rn.f16.f32", 1.0, 0x3c00);
    half("cvt.rn.f16.f32", 65504.0, 0x7bff);
    half("cvt.rn.f16.f32", 65520.0, 0x7c00);
    half("cvt.rz.f16.f32", 65536.0, 0x7bff);
    half("cvt.rn.f16.f32", 5.960_464_5e-8, 1);
    half("cvt.rn.f16.f32", 2.980_232_2e-8, 0);
    half("cvt.rp.f16.f32", 1e-30, 1);
    half("cvt.rm.f16.f32", -1e-30, 0x8001);
    // Ties go to the even neighbour.
    half("cvt.rn.f16.f32", 1.0 + 1.0 / 2048.0, 0x3c00);
    half("cvt.rn.f16.f32", 1.0 + 3.0 / 2048.0, 0x3c02);
    half("cvt.rn.f16.f32", f32::NAN, 0x7fff);
    half("cvt.rn.bf16.f32", 1.0, 0x3f80);
    half("cvt.rn.bf16.f32", f32::MAX, 0x7f80);
    half("cvt.rn.bf16.f32", f32::from_bits(0x3f80_8000), 0x3f80);
    half("cvt.rn.bf16.f32", f32::from_bits(0x3f81_8000), 0x3f82);
    check32("mov.u16 %h1, 0xc000; cvt.f32.f16 %f0, %h1; mov.b32 %r0, %f0;", (-2f32).to_bits());
    check32("mov.u16 %h1, 1; cvt.f32.f16 %f0, %h1; mov.b32 %r0, %f0;", 5.960_464_5e-8f32.to_bits());
    check32("cvt.rn.f16.s32 %h1, -7; cvt.f32.f16 %f0, %h1; mov.b32 %r0, %f0;", (-7f32).to_bits());
}
