//! Integer instructions, bit fields and exchanges, by known answers.

use super::common::{Arg, Machine, kernel};
use samebits_ptx_emulator::{Launch, Schedule};

/// Returns `%r0` and `%d0` after one thread has executed `body`.
pub(super) fn evaluate(body: &str) -> (u32, u64) {
    let source = kernel(&format!(
        "mov.u32 %r0, 0; mov.u64 %d0, 0;\n{body}\nst.global.u32 [%a], %r0; st.global.u64 [%b], %d0;"
    ));
    let mut machine = Machine::new(&source);
    let (a, b) = (machine.upload_u32(&[0]), machine.upload_u64(&[0]));
    machine
        .launch("k", Launch::new(1, 1), &[Arg::Pointer(a), Arg::Pointer(b)])
        .unwrap_or_else(|error| panic!("{body}: {error}"));
    (machine.read_u32(a, 1)[0], machine.read_u64(b, 1)[0])
}

pub(super) fn check32(body: &str, wanted: u32) {
    let found = evaluate(body).0;
    assert_eq!(found, wanted, "{body}: {found:#010x} is not {wanted:#010x}");
}

pub(super) fn check64(body: &str, wanted: u64) {
    let found = evaluate(body).1;
    assert_eq!(found, wanted, "{body}: {found:#018x} is not {wanted:#018x}");
}

#[test]
fn sums_and_products() {
    check32("add.s32 %r0, 5, -7;", -2i32 as u32);
    check32("add.u32 %r0, 0xffffffff, 2;", 1);
    check32("add.sat.s32 %r0, 0x7fffffff, 1;", 0x7fff_ffff);
    check32("sub.sat.s32 %r0, 0x80000000, 1;", 0x8000_0000);
    check64("sub.s64 %d0, 3, 5;", -2i64 as u64);
    check32("mul.lo.s32 %r0, -3, 5;", -15i32 as u32);
    check32("mul.hi.s32 %r0, -1, 1;", !0);
    check32("mul.hi.u32 %r0, -1, -1;", 0xffff_fffe);
    check64("mul.wide.s32 %d0, -3, 5;", -15i64 as u64);
    check64("mul.wide.u32 %d0, -1, -1;", 0xffff_fffe_0000_0001);
    check64("mul.hi.u64 %d0, -1, -1;", u64::MAX - 1);
    check64("mul.hi.s64 %d0, -1, -1;", 0);
    check32("mad.lo.s32 %r0, 6, 7, 8;", 50);
    check32("mad.hi.u32 %r0, 0x80000000, 6, 8;", 11);
    check64("mad.wide.s32 %d0, -2, 3, 10;", 4);
    check64("mad.lo.s64 %d0, 1000000, 1000000, -1;", 999_999_999_999);
    check32("mov.u16 %h1, 300; mul.wide.u16 %r0, %h1, 300;", 90_000);
    check32("mov.u16 %h1, -300; mul.wide.s16 %r0, %h1, 300;", -90_000i32 as u32);
    check32("mov.u16 %h1, 40000; add.s16 %h1, %h1, 40000; cvt.u32.u16 %r0, %h1;", 14_464);
    check32("sad.s32 %r0, -5, 7, 100;", 112);
    check32("sad.u32 %r0, 5, 7, 100;", 102);
    check32("dp4a.u32.u32 %r0, 0x01020304, 0x05060708, 10;", 5 + 12 + 21 + 32 + 10);
    check32("dp4a.s32.s32 %r0, 0xff, 0x02, 0;", -2i32 as u32);
}

#[test]
fn quotients() {
    check32("div.s32 %r0, -7, 2;", -3i32 as u32);
    check32("rem.s32 %r0, -7, 2;", -1i32 as u32);
    check32("div.u32 %r0, -7, 2;", 0x7fff_fffc);
    check32("div.s32 %r0, 0x80000000, -1;", 0x8000_0000);
    check32("rem.s32 %r0, 0x80000000, -1;", 0);
    check64("div.s64 %d0, -1000000000000, 7;", -142_857_142_857i64 as u64);
    check64("rem.u64 %d0, 1000000000000, 7;", 1);
}

#[test]
fn carries_run_through_a_chain() {
    // The square of 2^64 - 1 as four words.
    let square = "
        mul.lo.u32 %r1, -1, -1; mul.hi.u32 %r2, -1, -1;
        mad.lo.cc.u32 %r2, -1, -1, %r2; madc.hi.u32 %r3, -1, -1, 0;
        mad.lo.cc.u32 %r2, -1, -1, %r2; madc.hi.cc.u32 %r3, -1, -1, %r3; addc.u32 %r4, 0, 0;
        mad.lo.cc.u32 %r3, -1, -1, %r3; madc.hi.u32 %r4, -1, -1, %r4;
        mov.b64 %d1, {%r1, %r2}; mov.b64 %d0, {%r3, %r4};";
    let wanted = u128::from(u64::MAX) * u128::from(u64::MAX);
    check64(square, (wanted >> 64) as u64);
    check64(&square.replace("%d0, {%r3", "%d2, {%r3").replace("%d1, {", "%d0, {"), wanted as u64);
    check64("sub.cc.u64 %d1, 0, 1; subc.u64 %d0, 5, 1;", 3);
    check32("add.cc.u32 %r1, -1, 1; addc.cc.u32 %r2, -1, 0; addc.u32 %r0, 7, 0;", 8);
    check32("add.cc.u32 %r1, 1, 1; addc.u32 %r0, 7, 0;", 7);
}

#[test]
fn logic_and_selection() {
    check32("and.b32 %r0, 12, 10;", 8);
    check32("xor.b32 %r0, 12, 10;", 6);
    check32("not.b32 %r0, 0;", !0);
    check32("cnot.b32 %r0, 0;", 1);
    check32("abs.s32 %r0, -5;", 5);
    check32("abs.s32 %r0, 0x80000000;", 0x8000_0000);
    check64("neg.s64 %d0, 5;", -5i64 as u64);
    check32("min.s32 %r0, -1, 1;", !0);
    check32("min.u32 %r0, -1, 1;", 1);
    check64("max.s64 %d0, -1, 1;", 1);
    check32("lop3.b32 %r0, 0xff00, 0xf0f0, 0xcccc, 0xe8;", 0xfcc0);
    check32("lop3.b32 %r0, 1, 2, 4, 0xfe;", 7);
    check32("setp.lt.s32 %p1, -1, 1; selp.u32 %r0, 3, 4, %p1;", 3);
    check32("setp.lo.u32 %p1, -1, 1; selp.u32 %r0, 3, 4, %p1;", 4);
    check32("setp.lt.s32 %p1|%p2, 2, 1; selp.u32 %r0, 3, 4, %p2;", 3);
    check32("setp.eq.s32 %p1, 1, 1; setp.eq.and.s32 %p2, 1, 2, %p1; selp.u32 %r0, 3, 4, %p2;", 4);
    check32("setp.eq.s32 %p1, 1, 1; setp.eq.xor.s32 %p2, 2, 2, !%p1; selp.u32 %r0, 3, 4, %p2;", 3);
    check32("set.gt.u32.s32 %r0, 2, 1;", !0);
    check32("set.gt.f32.s32 %f1, 2, 1; mov.b32 %r0, %f1;", 1f32.to_bits());
    check32("slct.u32.s32 %r0, 3, 4, -1;", 4);
    check32("mov.pred %p1, 1; not.pred %p2, %p1; selp.u32 %r0, 3, 4, %p2;", 4);
}

#[test]
fn shifts_are_clamped() {
    check32("shl.b32 %r0, 1, 31;", 1 << 31);
    check32("shl.b32 %r0, 1, 32;", 0);
    check32("shr.u32 %r0, -1, 40;", 0);
    check32("shr.s32 %r0, -8, 40;", !0);
    check64("shl.b64 %d0, 1, 64;", 0);
    check64("shr.s64 %d0, -8, 1;", -4i64 as u64);
    check32("mov.u16 %h1, 0x8000; shr.s16 %h1, %h1, 15; cvt.u32.u16 %r0, %h1;", 0xffff);
    check32("shf.l.wrap.b32 %r0, 0x80000000, 1, 33;", 3);
    check32("shf.r.clamp.b32 %r0, 1, 2, 40;", 2);
    check32("shf.r.wrap.b32 %r0, 1, 2, 33;", 0);
}

#[test]
fn bit_fields() {
    check32("bfe.u32 %r0, 0xabcd1234, 8, 12;", 0xd12);
    check32("bfe.s32 %r0, 0x800, 8, 4;", -8i32 as u32);
    check32("bfe.s32 %r0, 0x80000000, 28, 10;", -8i32 as u32);
    check32("bfe.u32 %r0, -1, 40, 4;", 0);
    check64("bfe.u64 %d0, 0x123456789abcdef0, 32, 16;", 0x5678);
    check32("bfi.b32 %r0, 0xf, 0, 8, 4;", 0xf00);
    check32("bfi.b32 %r0, -1, 0, 28, 10;", 0xf000_0000);
    check64("bfi.b64 %d0, 0xabcd, -1, 16, 16;", 0xffff_ffff_abcd_ffff);
    check32("bfind.u32 %r0, 0x1000;", 12);
    check32("bfind.shiftamt.u32 %r0, 0x1000;", 19);
    check32("bfind.s32 %r0, -1;", !0);
    check32("bfind.u64 %r0, 0x100000000;", 32);
    check32("popc.b64 %r0, -1;", 64);
    check32("clz.b32 %r0, 0;", 32);
    check32("brev.b32 %r0, 1;", 1 << 31);
    check32("prmt.b32 %r0, 0x33221100, 0x77665544, 0x7410;", 0x7744_1100);
    check32("prmt.b32 %r0, 0x80, 0, 0x8888;", !0);
    check32("prmt.b32.f4e %r0, 0x33221100, 0x77665544, 1;", 0x4433_2211);
    check32("prmt.b32.b4e %r0, 0x33221100, 0x77665544, 1;", 0x6677_0011);
    check32("prmt.b32.rc16 %r0, 0x33221100, 0, 1;", 0x3322_3322);
    check32("prmt.b32.ecl %r0, 0x33221100, 0, 2;", 0x3322_2222);
    check32("fns.b32 %r0, 0xf0, 0, 2;", 5);
    check32("fns.b32 %r0, 0xf0, 31, -1;", 7);
    check32("fns.b32 %r0, 0xf0, 0, 5;", !0);
    check32("bmsk.clamp.b32 %r0, 4, 8;", 0xff0);
}

#[test]
fn packing_and_special_registers() {
    check64("mov.b64 %d0, {1, 2};", 0x2_0000_0001);
    check32("mov.b64 {_, %r0}, 0x500000001;", 5);
    check32("mov.u16 %h1, 7; mov.u16 %h2, 9; mov.b32 %r0, {%h1, %h2};", 0x9_0007);
    check32("{ .reg .b32 %r0; mov.u32 %r0, 9; }", 0);
    check32(".reg .v2 .b32 v; mov.u32 v.x, 3; mov.u32 v.y, 4; add.s32 %r0, v.x, v.y;", 7);
    check32("mov.u32 %r0, %ntid.x;", 1);
    check32("mov.u32 %r0, WARP_SZ;", 32);
    check32("mov.u32 %r0, %lanemask_ge;", !0);
    check32("mov.u32 %r0, %lanemask_lt;", 0);
    check32("activemask.b32 %r0;", 1);
}

/// Returns `%r0` of a warp, lane by lane.
fn warp(body: &str) -> Vec<u32> {
    let source = kernel(&format!(
        "{body}\nmul.wide.u32 %x, %t, 4; add.s64 %x, %x, %a; st.global.u32 [%x], %r0;"
    ));
    let mut machine = Machine::new(&source);
    let a = machine.upload_u32(&[0; 32]);
    machine.launch("k", Launch::new(1, 32), &[Arg::Pointer(a), Arg::Pointer(a)]).unwrap();
    machine.read_u32(a, 32)
}

#[test]
fn lanes_exchange_values() {
    let lanes = |f: fn(u32) -> u32| (0..32).map(f).collect::<Vec<_>>();
    assert_eq!(warp("shfl.sync.bfly.b32 %r0, %t, 5, 31, -1;"), lanes(|l| l ^ 5));
    assert_eq!(
        warp("shfl.sync.up.b32 %r0, %t, 3, 0, -1;"),
        lanes(|l| if l < 3 { l } else { l - 3 })
    );
    assert_eq!(
        warp("shfl.sync.down.b32 %r0, %t, 3, 31, -1;"),
        lanes(|l| if l > 28 { l } else { l + 3 })
    );
    // Segments of eight lanes: the mask in the upper byte of the clamp.
    assert_eq!(warp("shfl.sync.idx.b32 %r0, %t, 2, 0x181f, -1;"), lanes(|l| (l & !7) + 2));
    assert_eq!(
        warp("shfl.sync.up.b32 %r1|%p1, %t, 3, 0x1800, -1; selp.u32 %r0, 1, 0, %p1;"),
        lanes(|l| u32::from(l % 8 >= 3))
    );
    assert_eq!(
        warp("setp.gt.u32 %p1, %t, 20; vote.sync.ballot.b32 %r0, %p1, -1;"),
        [0xffe0_0000; 32]
    );
    assert_eq!(
        warp("setp.gt.u32 %p1, %t, 30; vote.sync.any.pred %p2, %p1, -1; selp.u32 %r0, 1, 0, %p2;"),
        [1; 32]
    );
    assert_eq!(
        warp("setp.gt.u32 %p1, %t, 30; vote.sync.uni.pred %p2, %p1, -1; selp.u32 %r0, 1, 0, %p2;"),
        [0; 32]
    );
    assert_eq!(
        warp("and.b32 %r1, %t, 3; match.any.sync.b32 %r0, %r1, -1;"),
        lanes(|l| 0x1111_1111 << (l % 4))
    );
    assert_eq!(warp("match.all.sync.b32 %r0|%p1, 7, -1;"), [!0; 32]);
    assert_eq!(warp("redux.sync.add.s32 %r0, %t, -1;"), [496; 32]);
    assert_eq!(warp("mov.u32 %r0, %lanemask_le;"), lanes(|l| (2u64.pow(l + 1) - 1) as u32));
}

#[test]
fn halves_of_a_warp_exchange_on_their_own() {
    let body = "setp.lt.u32 %p1, %t, 16; @%p1 bra X;
                shfl.sync.bfly.b32 %r0, %t, 1, 31, 0xffff0000; bra Y;
                X: shfl.sync.bfly.b32 %r0, %t, 2, 31, 0xffff; Y:";
    let wanted: Vec<u32> = (0..32).map(|l| if l < 16 { l ^ 2 } else { l ^ 1 }).collect();
    assert_eq!(warp(body), wanted);
}

#[test]
fn barriers_reduce() {
    assert_eq!(warp("setp.lt.u32 %p1, %t, 7; bar.red.popc.u32 %r0, 0, %p1;"), [7; 32]);
    assert_eq!(
        warp("setp.lt.u32 %p1, %t, 7; bar.red.and.pred %p2, 0, !%p1; selp.u32 %r0, 1, 0, %p2;"),
        [0; 32]
    );
    assert_eq!(
        warp("setp.lt.u32 %p1, %t, 7; bar.red.or.pred %p2, 0, %p1; selp.u32 %r0, 1, 0, %p2;"),
        [1; 32]
    );
}

#[test]
fn branches_by_index() {
    let body = "and.b32 %r1, %t, 1; mov.u32 %r0, 5; T: .branchtargets X, Y; brx.idx %r1, T;
                X: add.s32 %r0, %r0, 10; Y: add.s32 %r0, %r0, 100;";
    let wanted: Vec<u32> = (0..32).map(|l| if l % 2 == 0 { 115 } else { 105 }).collect();
    assert_eq!(warp(body), wanted);
}

/// Checks `%r0` of 64 threads, in every kind of order.
fn two_warps(body: &str, wanted: impl Fn(u32) -> u32) {
    let source = kernel(&format!(
        ".shared .align 4 .b8 s[512]; {body}\n\
         mul.wide.u32 %x, %t, 4; add.s64 %x, %x, %a; st.global.u32 [%x], %r0;"
    ));
    for schedule in [Schedule::InOrder, Schedule::Reversed, Schedule::Seeded(3)] {
        let mut machine = Machine::new(&source);
        machine.device.set_schedule(schedule);
        let a = machine.upload_u32(&[0; 64]);
        let b = machine.upload_u32(&[0; 64]);
        machine
            .launch("k", Launch::new(1, 64), &[Arg::Pointer(a), Arg::Pointer(b)])
            .unwrap_or_else(|error| panic!("{schedule:?}: {error}"));
        let wanted: Vec<u32> = (0..64).map(&wanted).collect();
        assert_eq!(machine.read_u32(a, 64), wanted, "{schedule:?}");
    }
}

#[test]
fn warps_may_wait_for_each_other() {
    // The first warp spins until the second has raised a flag; then vice versa.
    let body = "
        mov.u32 %r0, 0; setp.lt.u32 %p1, %t, 32; @!%p1 bra SECOND;
        WAIT1: ld.volatile.global.u32 %r0, [%b]; setp.eq.u32 %p2, %r0, 0; @%p2 bra WAIT1;
        bar.warp.sync -1;
        setp.eq.u32 %p2, %t, 0; @%p2 atom.global.exch.b32 %r1, [%b+4], 9; bra DONE;
        SECOND: setp.eq.u32 %p2, %t, 32; @%p2 atom.global.exch.b32 %r1, [%b], 5;
        WAIT2: ld.volatile.global.u32 %r0, [%b+4]; setp.eq.u32 %p2, %r0, 0; @%p2 bra WAIT2;
        DONE:";
    two_warps(body, |t| if t < 32 { 5 } else { 9 });
}

#[test]
fn named_barriers_pair_producers_with_consumers() {
    // The second warp stores and arrives at barrier 1 without waiting; the first one waits there.
    let body = "
        mov.u32 %r1, s; shl.b32 %r2, %t, 2; add.s32 %r1, %r1, %r2; mov.u32 %r0, 77;
        setp.lt.u32 %p1, %t, 32; @%p1 bra FIRST;
        st.shared.u32 [%r1], %t; bar.arrive 1, 64; bra DONE;
        FIRST: bar.sync 1, 64; ld.shared.u32 %r0, [%r1+128];
        DONE:";
    two_warps(body, |t| if t < 32 { t + 32 } else { 77 });
}
