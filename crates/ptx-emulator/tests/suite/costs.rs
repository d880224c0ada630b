//! The cost of a launch: figures computed by hand, and mistakes that they reveal.

use crate::common::{Arg, Machine, kernel};
use samebits_ptx_emulator::{Class, Counts, Launch};

/// Runs a kernel around `body` on two buffers of 16 KiB of zeros.
fn cost(body: &str, launch: Launch) -> Counts {
    let mut machine = Machine::new(&kernel(body));
    machine.device.set_counting(true);
    let [a, b] = [machine.upload(&[0; 1 << 14]), machine.upload(&[0; 1 << 14])];
    let stats = machine.launch("k", launch, &[Arg::Pointer(a), Arg::Pointer(b)]).unwrap();
    stats.counts.expect("the device counts")
}

/// Returns code that copies a word from `stride` bytes times the thread's number.
fn copy(stride: u32) -> String {
    format!(
        "mul.wide.u32 %x, %t, {stride}; add.s64 %d1, %a, %x; ld.global.u32 %r1, [%d1];
         mul.wide.u32 %x, %t, 4; add.s64 %d2, %b, %x; st.global.u32 [%d2], %r1;"
    )
}

#[test]
fn nothing_is_counted_unless_asked_for() {
    let mut machine = Machine::new(&kernel(""));
    let stats = machine.launch("k", Launch::new(1, 32), &[Arg::Pointer(0), Arg::Pointer(0)]);
    assert_eq!(stats.unwrap().counts, None);
}

#[test]
fn neighbouring_threads_share_sectors() {
    let counts = cost(&copy(4), Launch::new(1, 32));
    // 32 words are 128 bytes: 4 sectors.
    let loads = counts.loads;
    assert_eq!((loads.asked, loads.needed, loads.fetched, loads.touched), (4, 128, 4, 4));
    assert_eq!(counts.stores, loads);
    // Two parameters, two address conversions and two special registers come before.
    assert_eq!((counts.of(Class::Constant), counts.of(Class::Move)), (2, 4));
    assert_eq!((counts.of(Class::Word), counts.of(Class::Wide)), (2, 2));
    assert_eq!((counts.of(Class::Global), counts.of(Class::Control)), (2, 1));
    assert_eq!((counts.longest, counts.warps), (13, 1));
    assert_eq!((counts.chain, counts.waits, counts.block_waits), (1, 1, 1));
}

#[test]
fn a_stride_asks_for_a_sector_for_each_thread() {
    let counts = cost(&copy(128), Launch::new(1, 32));
    assert_eq!((counts.loads.asked, counts.loads.needed, counts.stores.asked), (32, 128, 4));
}

#[test]
fn blocks_fetch_for_themselves_and_memory_is_touched_once() {
    // Three blocks of two warps, which read the same 256 bytes.
    let counts = cost(&copy(4), Launch::new(3, 64));
    let loads = counts.loads;
    assert_eq!((loads.asked, loads.needed, loads.fetched, loads.touched), (24, 768, 24, 8));
    // Both warps of a block read the data that one of them has fetched.
    let both = cost("ld.global.u32 %r1, [%a];", Launch::new(3, 64)).loads;
    assert_eq!((both.asked, both.needed, both.fetched, both.touched), (6, 24, 3, 1));
}

/// Returns ten iterations of a loop around `turn`, whose loads go to `%r1`.
fn serial(turn: &str) -> String {
    format!(
        "mov.u32 %r3, 0; mov.u32 %r2, 0; mov.b64 %d1, %a;
         again: {turn} add.u32 %r2, %r2, %r1;
         add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 10; @%p1 bra again;
         st.global.u32 [%b], %r2;"
    )
}

#[test]
fn a_serial_loop_waits_for_each_load() {
    let counts = cost(&serial("ld.global.u32 %r1, [%d1]; add.s64 %d1, %d1, 4;"), Launch::new(1, 1));
    assert_eq!((counts.chain, counts.waits), (1, 10));
    // Six instructions before, three to begin, six per iteration, a store and the return.
    assert_eq!(counts.longest, 6 + 3 + 60 + 2);
    // The address of each load comes from the load before it.
    let chase = "ld.global.u32 %r1, [%d1]; cvt.u64.u32 %d2, %r1; add.s64 %d1, %a, %d2;";
    let counts = cost(&serial(chase), Launch::new(1, 1));
    assert_eq!((counts.chain, counts.waits), (10, 10));
}

#[test]
fn loads_side_by_side_wait_together_unless_a_store_is_between() {
    let four = |between: &str| {
        let load = |i: u32| format!("ld.global.u32 %r{i}, [%a+{}]; {between}", 4 * i);
        let loads: String = (1..5).map(load).collect();
        format!("{loads} add.u32 %r5, %r1, %r2; add.u32 %r6, %r3, %r4; add.u32 %r5, %r5, %r6;")
    };
    assert_eq!(cost(&four(""), Launch::new(1, 1)).waits, 1);
    let stored = four("st.global.u32 [%b], %r1;");
    assert_eq!(cost(&stored, Launch::new(1, 1)).waits, 2);
    let each = "ld.global.u32 %r1, [%a]; st.global.u32 [%b], %r1;
                ld.global.u32 %r1, [%a+4]; st.global.u32 [%b+4], %r1;";
    assert_eq!(cost(each, Launch::new(1, 1)).waits, 2);
}

#[test]
fn a_barrier_waits_for_the_last_warp() {
    // The first warp loads twice before the barrier, one value after the other, and both once after
    // it.
    let body = "setp.gt.u32 %p1, %t, 31; @%p1 bra there;
        ld.global.u32 %r1, [%a]; cvt.u64.u32 %d1, %r1; add.s64 %d1, %a, %d1;
        ld.global.u32 %r1, [%d1]; add.u32 %r1, %r1, 1;
        there: bar.sync 0;
        ld.global.u32 %r2, [%a+8]; add.u32 %r2, %r2, 1;";
    let counts = cost(body, Launch::new(2, 64));
    assert_eq!((counts.waits, counts.block_waits), (3, 6));
    assert_eq!(counts.of(Class::Barrier), 4);
}

#[test]
fn words_of_one_bank_take_turns() {
    let body = |stride: u32, suffix: &str| {
        format!(
            ".shared .align 16 .b8 s[8192]; mul.lo.u32 %r1, %t, {stride}; mov.u32 %r2, s;
             add.u32 %r2, %r2, %r1; mov.u32 %r3, 0; st.shared{suffix};"
        )
    };
    let waves = |stride, suffix: &str| {
        let counts = cost(&body(stride, suffix), Launch::new(1, 32));
        (counts.shared_waves, counts.shared_least)
    };
    assert_eq!(waves(4, ".u32 [%r2], %r3"), (1, 1));
    // Every word in bank 0, then words two banks apart.
    assert_eq!(waves(128, ".u32 [%r2], %r3"), (32, 1));
    assert_eq!(waves(8, ".u32 [%r2], %r3"), (2, 1));
    // One word for all lanes.
    assert_eq!(waves(0, ".u32 [%r2], %r3"), (1, 1));
    // 32 times 16 bytes are four waves in any order that fills them; at 32 bytes, banks conflict.
    assert_eq!(waves(16, ".v4.u32 [%r2], {%r3, %r3, %r3, %r3}"), (4, 4));
    assert_eq!(waves(32, ".v4.u32 [%r2], {%r3, %r3, %r3, %r3}"), (8, 4));
}

#[test]
fn atomics_on_one_address_are_counted() {
    let counts = cost("red.global.add.u32 [%a], 1;", Launch::new(4, 64));
    assert_eq!((counts.atomic_lanes, counts.atomic_repeats), (256, 8 * 31));
    assert_eq!((counts.atomic_hottest, counts.atomics.asked), (256, 8));
    let apart = "mul.wide.u32 %x, %t, 4; add.s64 %d1, %a, %x; red.global.add.u32 [%d1], 1;";
    let counts = cost(apart, Launch::new(4, 64));
    assert_eq!((counts.atomic_repeats, counts.atomic_hottest, counts.atomics.asked), (0, 4, 32));
}
