//! Every check of the emulator catches its fault and reports where it is.

use super::common::{Arg, Machine, kernel, marked_line};
use samebits_ptx_emulator::{Access, Checks, Device, Error, Fault, FaultKind, Launch, Space};

/// Runs `body` with `%a` and `%b` pointing to 64 initialised words each.
fn run(body: &str, launch: Launch) -> Result<(), Box<Fault>> {
    run_with(body, launch, |_| {})
}

fn run_with(
    body: &str,
    launch: Launch,
    prepare: impl FnOnce(&mut Device),
) -> Result<(), Box<Fault>> {
    let source = kernel(body);
    let mut machine = Machine::new(&source);
    let a = machine.upload_u32(&[1; 64]);
    let b = machine.upload_u32(&[2; 64]);
    prepare(&mut machine.device);
    match machine.launch("k", launch, &[Arg::Pointer(a), Arg::Pointer(b)]) {
        Ok(_) => Ok(()),
        Err(Error::Fault(fault)) => {
            assert_eq!(fault.kernel, "k");
            if source.contains("// here") {
                assert_eq!(fault.line, marked_line(&source), "{fault}");
            }
            Err(fault)
        }
        Err(error) => panic!("{error}"),
    }
}

/// Code that sets `%x` to the address of word `%t` of `%a`.
const WORD: &str = "mul.wide.u32 %x, %t, 4; add.s64 %x, %x, %a;\n";

#[test]
fn out_of_bounds_names_thread_and_address() {
    let body = format!("{WORD} ld.global.u32 %r1, [%x]; // here");
    assert_eq!(run(&body, Launch::new(1, 64)), Ok(()));
    let fault = run(&body, Launch::new(1, 65)).unwrap_err();
    assert_eq!((fault.thread, fault.block), ([64, 0, 0], [0; 3]));
    let FaultKind::OutOfBounds { space, access, size, .. } = fault.kind else {
        panic!("{fault}");
    };
    assert_eq!((space, access, size), (Space::Global, Access::Read, 4));
    let negative = "st.global.u32 [%a+-4], 0; // here";
    assert!(matches!(
        run(negative, Launch::new(1, 1)).unwrap_err().kind,
        FaultKind::OutOfBounds { access: Access::Write, .. }
    ));
    // Only the last element of a vector may be outside.
    let vector = "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%a+256]; // here";
    assert!(matches!(
        run(vector, Launch::new(1, 1)).unwrap_err().kind,
        FaultKind::OutOfBounds { .. }
    ));
    let null = "mov.u64 %x, 0; atom.global.add.u32 %r1, [%x], 1; // here";
    assert!(matches!(
        run(null, Launch::new(1, 1)).unwrap_err().kind,
        FaultKind::OutOfBounds { access: Access::Atomic, .. }
    ));
}

#[test]
fn shared_and_local_memory_have_bounds_too() {
    let shared = ".shared .align 4 .b8 s[64]; mov.u64 %x, s; st.shared.u32 [%x+64], 0; // here";
    assert!(matches!(
        run(shared, Launch::new(1, 1)).unwrap_err().kind,
        FaultKind::OutOfBounds { space: Space::Shared, .. }
    ));
    let local = ".local .align 4 .b8 l[64]; mov.u64 %x, l; st.local.u32 [%x+64], 0; // here";
    assert!(matches!(
        run(local, Launch::new(1, 1)).unwrap_err().kind,
        FaultKind::OutOfBounds { space: Space::Local, .. }
    ));
}

#[test]
fn misaligned() {
    let body = "ld.global.u32 %r1, [%a+2]; // here";
    let fault = run(body, Launch::new(1, 1)).unwrap_err();
    assert!(matches!(fault.kind, FaultKind::Misaligned { size: 4, .. }), "{fault}");
    let vector = "ld.global.v2.u32 {%r1, %r2}, [%a+4]; // here";
    let fault = run(vector, Launch::new(1, 1)).unwrap_err();
    assert!(matches!(fault.kind, FaultKind::Misaligned { size: 8, .. }), "{fault}");
}

#[test]
fn uninitialised_reads_in_every_space() {
    let source = kernel("ld.global.u8 %r1, [%a+3]; // here");
    let mut machine = Machine::new(&source);
    let a = machine.device.alloc(4).unwrap();
    machine.device.write(a, &[1, 2, 3]).unwrap();
    let mut go = || machine.launch("k", Launch::new(1, 1), &[Arg::Pointer(a), Arg::Pointer(a)]);
    let error = go().unwrap_err();
    let fault = error.fault().unwrap();
    assert_eq!(fault.line, marked_line(&source));
    assert_eq!(
        fault.kind,
        FaultKind::Uninitialised { space: Space::Global, address: a + 3, size: 1 }
    );
    machine.device.fill(a, 4, &[0]).unwrap();
    let mut go = || machine.launch("k", Launch::new(1, 1), &[Arg::Pointer(a), Arg::Pointer(a)]);
    go().unwrap();
    for (body, wanted) in [
        (".shared .b32 s; ld.shared.u32 %r1, [s]; // here", Space::Shared),
        (".local .b32 l; ld.local.u32 %r1, [l]; // here", Space::Local),
        (".shared .b32 s; atom.shared.add.u32 %r1, [s], 1; // here", Space::Shared),
    ] {
        let fault = run(body, Launch::new(1, 1)).unwrap_err();
        assert!(
            matches!(fault.kind, FaultKind::Uninitialised { space, .. } if space == wanted),
            "{fault}"
        );
        let off = Checks { uninitialised: false, ..Checks::default() };
        assert_eq!(run_with(body, Launch::new(1, 1), |d| d.set_checks(off)), Ok(()));
    }
}

#[test]
fn copies_carry_their_initialisation() {
    let mut machine = Machine::new(&kernel("ld.global.u32 %r1, [%a]; ld.global.u32 %r1, [%b];"));
    let [a, b] = [8, 8].map(|size| machine.device.alloc(size).unwrap());
    machine.device.write(a, &[0; 4]).unwrap();
    machine.device.copy(b, a, 8).unwrap();
    let mut go = |x, y| {
        machine.launch("k", Launch::new(1, 1), &[Arg::Pointer(x), Arg::Pointer(y)]).map(|_| ())
    };
    go(a, b).unwrap();
    assert!(matches!(
        go(a, b + 4).unwrap_err().fault().unwrap().kind,
        FaultKind::Uninitialised { .. }
    ));
}

#[test]
fn freed_memory() {
    let source = kernel("ld.global.u32 %r1, [%a]; // here");
    let mut machine = Machine::new(&source);
    let a = machine.upload_u32(&[0; 4]);
    machine.device.free(a).unwrap();
    // A new allocation never reuses the old address.
    let b = machine.upload_u32(&[0; 4]);
    let args = [Arg::Pointer(a), Arg::Pointer(b)];
    let error = machine.launch("k", Launch::new(1, 1), &args).unwrap_err();
    let fault = error.fault().unwrap();
    assert_eq!(fault.kind, FaultKind::Freed { access: Access::Read, address: a, size: 4 });
    assert!(machine.device.free(a).is_err(), "freeing twice is an error");
    assert!(machine.device.read(a, &mut [0]).is_err());
}

#[test]
fn memory_that_was_used_before_is_uninitialised() {
    let source = kernel("ld.global.u32 %r1, [%a]; // here");
    let mut machine = Machine::new(&source);
    for size in [16, 12, 24, 4, 16] {
        let a = machine.device.alloc(size).unwrap();
        let mut bytes = vec![0; size as usize];
        machine.device.read(a, &mut bytes).unwrap();
        assert!(bytes.iter().all(|&byte| byte == 0xff), "{size} bytes");
        let args = [Arg::Pointer(a), Arg::Pointer(a)];
        let error = machine.launch("k", Launch::new(1, 1), &args).unwrap_err();
        assert!(matches!(error.fault().unwrap().kind, FaultKind::Uninitialised { .. }));
        machine.device.write(a, &vec![0; size as usize]).unwrap();
        machine.launch("k", Launch::new(1, 1), &args).unwrap();
        machine.device.free(a).unwrap();
    }
}

#[test]
fn wrong_address_space() {
    for body in [
        // A shared address used as a global one, and vice versa.
        ".shared .b32 s; mov.u64 %x, s; cvta.shared.u64 %x, %x; ld.global.u32 %r1, [%x]; // here",
        "ld.shared.u32 %r1, [%a]; // here",
        "ld.local.u32 %r1, [%a]; // here",
        "ld.const.u32 %r1, [%a]; // here",
    ] {
        let fault = run(body, Launch::new(1, 1)).unwrap_err();
        assert!(matches!(fault.kind, FaultKind::InvalidSpace { .. }), "{body}: {fault}");
    }
    let source = ".version 8.5\n.target sm_70\n.address_size 64\n.const .u32 c = 5;\n\
                  .visible .entry k() { .reg .b64 %x; mov.u64 %x, c; st.global.u32 [%x], 1; }";
    let error = Machine::new(source).launch("k", Launch::new(1, 1), &[]).unwrap_err();
    assert!(matches!(error.fault().unwrap().kind, FaultKind::InvalidSpace { .. }), "{error}");
}

fn is_race(result: Result<(), Box<Fault>>) -> bool {
    match result {
        Ok(()) => false,
        Err(fault) => {
            assert!(matches!(fault.kind, FaultKind::Race { .. }), "{fault}");
            true
        }
    }
}

#[test]
fn races_in_shared_memory() {
    let exchange = |barrier: &str| {
        format!(
            ".shared .align 4 .b8 s[512]; mov.u32 %r1, s; shl.b32 %r2, %t, 2;
             add.s32 %r3, %r1, %r2; st.shared.u32 [%r3], 0; bar.sync 0;
             st.shared.u32 [%r3], %t; {barrier}
             xor.b32 %r2, %r2, 128; add.s32 %r3, %r1, %r2; ld.shared.u32 %r4, [%r3];"
        )
    };
    assert!(is_race(run(&exchange(""), Launch::new(1, 128))));
    assert!(!is_race(run(&exchange("bar.sync 0;"), Launch::new(1, 128))));
    let off = Checks { races: false, ..Checks::default() };
    assert_eq!(run_with(&exchange(""), Launch::new(1, 128), |d| d.set_checks(off)), Ok(()));
}

#[test]
fn lanes_of_a_warp_are_not_in_lockstep() {
    let exchange = |barrier: &str| {
        format!(
            ".shared .align 4 .b8 s[128]; mov.u32 %r1, s; shl.b32 %r2, %t, 2;
             add.s32 %r3, %r1, %r2; st.shared.u32 [%r3], 0; bar.sync 0;
             st.shared.u32 [%r3], %t; {barrier}
             xor.b32 %r2, %r2, 4; add.s32 %r3, %r1, %r2; ld.shared.u32 %r4, [%r3];"
        )
    };
    assert!(is_race(run(&exchange(""), Launch::new(1, 32))));
    assert!(!is_race(run(&exchange("bar.warp.sync -1;"), Launch::new(1, 32))));
    // A warp's own barrier orders nothing between warps.
    let far = exchange("bar.warp.sync -1;").replace("s[128]", "s[256]").replace(", 4;", ", 128;");
    assert!(is_race(run(&far, Launch::new(1, 64))));
}

#[test]
fn races_in_global_memory() {
    let one = Launch::new(1, 2);
    // Write and write, read and write, within an instruction and between instructions.
    assert!(is_race(run("st.global.u32 [%a], %t; // here", one)));
    assert!(is_race(run(
        "setp.eq.u32 %p1, %t, 0; @%p1 st.global.u32 [%a], 7;
                         ld.global.u32 %r1, [%a]; // here",
        one
    )));
    assert!(is_race(run(
        "ld.global.u32 %r1, [%a]; setp.eq.u32 %p1, %t, 0;
                         @%p1 st.global.u32 [%a], 7; // here",
        one
    )));
    // The same value from all threads is no race: no schedule can show it.
    assert!(!is_race(run("st.global.u32 [%a], 7;", one)));
    // A barrier orders the threads of a block.
    assert!(!is_race(run(
        "setp.eq.u32 %p1, %t, 0; @%p1 st.global.u32 [%a], 7; bar.sync 0;
                          ld.global.u32 %r1, [%a]; bar.sync 0; setp.eq.u32 %p1, %t, 1;
                          @%p1 st.global.u32 [%a], 8;",
        one
    )));
    // Nothing orders blocks except atomics.
    let two = Launch::new(2, 1);
    assert!(is_race(run("st.global.u32 [%a], %c; // here", two)));
    assert!(is_race(run(
        "setp.eq.u32 %p1, %c, 0; @%p1 st.global.u32 [%a], 7; bar.sync 0;
                         ld.global.u32 %r1, [%a]; // here",
        two
    )));
    assert!(!is_race(run("red.global.add.u32 [%a], 7; atom.global.max.u32 %r1, [%a], 3;", two)));
    assert!(is_race(run("red.global.add.u32 [%a], 7; ld.global.u32 %r1, [%a]; // here", two)));
    assert!(!is_race(run(
        "red.global.add.u32 [%a], 7; ld.relaxed.gpu.global.u32 %r1, [%a];
                          st.volatile.global.u32 [%a], %c;",
        two
    )));
    assert!(is_race(run(
        "setp.eq.u32 %p1, %c, 0; @%p1 bra X; red.global.add.u32 [%a], 1; // here
                         ret; X: st.global.u32 [%a], 9;",
        two
    )));
}

#[test]
fn a_race_names_both_threads() {
    let fault = run(
        "setp.eq.u32 %p1, %t, 5; @%p1 st.global.u32 [%a+8], 7; bar.warp.sync -1;
                     bar.sync 0; setp.eq.u32 %p1, %t, 40; @%p1 st.global.u32 [%a+8], 9;
                     setp.eq.u32 %p1, %t, 2; @%p1 st.global.u32 [%a+8], 11;",
        Launch::new(1, 64),
    )
    .unwrap_err();
    let FaultKind::Race { space: Space::Global, access: Access::Write, earlier, other, .. } =
        &fault.kind
    else {
        panic!("{fault}");
    };
    assert_eq!(*earlier, Access::Write);
    let pair = (fault.thread, other.as_str());
    assert_eq!(pair, ([40, 0, 0], "thread (2, 0, 0)"));
}

#[test]
fn neighbouring_bytes_are_no_race() {
    let bytes = "cvt.u64.u32 %x, %t; add.s64 %x, %x, %a; st.global.u8 [%x], %t;";
    assert!(!is_race(run(bytes, Launch::new(1, 128))));
    let overlapping = "shr.u32 %r1, %t, 1; cvt.u64.u32 %x, %r1; add.s64 %x, %x, %a;
                       st.global.u8 [%x], %t; // here";
    assert!(is_race(run(overlapping, Launch::new(1, 128))));
}

#[test]
fn divergent_barriers() {
    for body in [
        // Half a warp bypasses the barrier and exits.
        "setp.lt.u32 %p1, %t, 16; @%p1 ret; bar.sync 0; // here",
        // A whole warp does.
        "setp.lt.u32 %p1, %t, 32; @%p1 ret; bar.sync 0; // here",
        // The halves of a warp wait at different barriers.
        "setp.lt.u32 %p1, %t, 16; @%p1 bra X; bar.sync 0; // here
         bra Y;
         X: bar.sync 1; Y:",
        "setp.lt.u32 %p1, %t, 16; @%p1 bar.sync 0; // here",
    ] {
        let fault = run(body, Launch::new(1, 64)).unwrap_err();
        assert!(matches!(fault.kind, FaultKind::DivergentBarrier { .. }), "{body}: {fault}");
    }
    // A detour that returns in time is no fault, wherever the compiler puts it.
    let detour = "setp.lt.u32 %p1, %t, 16; @%p1 bra X; Y: bar.sync 0; ret;
                  X: add.s32 %r1, %t, 1; bra Y;";
    assert_eq!(run(detour, Launch::new(1, 64)), Ok(()));
}

#[test]
fn deadlocks_and_endless_loops() {
    // Lane 1 waits for lane 0, which never comes.
    let lanes = "setp.eq.u32 %p1, %t, 0; @%p1 bra X; shfl.sync.idx.b32 %r1, %t, 0, 31, -1; // here
                 ret; X: bar.sync 0;";
    let fault = run(lanes, Launch::new(1, 32)).unwrap_err();
    assert!(matches!(fault.kind, FaultKind::DivergentBarrier { .. } | FaultKind::Deadlock { .. }));
    let limit = Checks { step_limit: 10_000, ..Checks::default() };
    let fault =
        run_with("X: bra X; // here", Launch::new(1, 1), |d| d.set_checks(limit)).unwrap_err();
    assert_eq!(fault.kind, FaultKind::StepLimit { limit: 10_000 });
    let outside = "shfl.sync.idx.b32 %r1, %t, 0, 31, 1; // here";
    let fault = run(outside, Launch::new(1, 2)).unwrap_err();
    assert!(matches!(fault.kind, FaultKind::DivergentBarrier { .. }), "{fault}");
}

#[test]
fn exchanges_with_lanes_that_do_not_exist() {
    let body = "shfl.sync.down.b32 %r1, %t, 8, 31, -1; // here";
    assert_eq!(run(body, Launch::new(1, 32)), Ok(()));
    let fault = run(body, Launch::new(1, 20)).unwrap_err();
    assert_eq!(fault.kind, FaultKind::InactiveLane { lane: 20 });
}

#[test]
fn traps_and_bad_targets() {
    let fault = run("setp.eq.u32 %p1, %t, 3; @%p1 trap; // here", Launch::new(2, 4)).unwrap_err();
    assert_eq!((fault.kind, fault.thread), (FaultKind::Trap, [3, 0, 0]));
    let fault =
        run("T: .branchtargets X; brx.idx %t, T; // here\n X:", Launch::new(1, 2)).unwrap_err();
    assert_eq!(fault.kind, FaultKind::InvalidTarget { target: 1 });
    let fault = run("P: .callprototype _ (); call %a, P; // here", Launch::new(1, 2)).unwrap_err();
    assert!(matches!(fault.kind, FaultKind::InvalidTarget { .. }));
}

#[test]
fn endless_recursion() {
    let source = ".version 8.5\n.target sm_70\n.address_size 64\n.func f();\n.func f()\n\
                  { call f; // here\n ret; }\n.visible .entry k() { call f; ret; }";
    let error = Machine::new(source).launch("k", Launch::new(1, 1), &[]).unwrap_err();
    let fault = error.fault().unwrap();
    assert!(matches!(fault.kind, FaultKind::CallDepth { .. }), "{fault}");
    assert_eq!(fault.line, marked_line(source));
}

#[test]
fn launches_that_do_not_fit() {
    let mut machine = Machine::new(&kernel(""));
    let args = || [Arg::Pointer(0), Arg::Pointer(0)];
    let launch = Launch::new(1, 1);
    for bad in [
        Launch::new(0, 1),
        Launch::new(1, 0),
        Launch::new(1, 1025),
        Launch { grid: [1, 65536, 1], ..launch },
        Launch { block: [1, 1, 65], ..launch },
        Launch { dynamic_shared: 1 << 20, ..launch },
    ] {
        let error = machine.launch("k", bad, &args()).unwrap_err();
        assert!(matches!(error, Error::Launch { .. }), "{bad:?}: {error}");
    }
    machine.launch("k", launch, &args()).unwrap();
}
