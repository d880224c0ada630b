//! The loader rejects what it cannot execute exactly, and never panics.

use super::common::{kernel, marked_line};
use proptest::prelude::*;
use samebits_ptx_emulator::{Approximate, Checks, Device, Error, Launch, Module};

fn refused(source: &str, part: &str) {
    match Module::parse(source) {
        Err(Error::Load { line, message }) => {
            assert!(message.contains(part), "{message:?} does not say {part:?}");
            assert_eq!(line, marked_line(source), "{message}");
        }
        other => panic!("{source}: {other:?}"),
    }
}

#[test]
fn unknown_instructions_and_modifiers_name_their_line() {
    for (instruction, part) in [
        ("frobnicate.u32 %r1, %r2;", "unknown instruction frobnicate.u32"),
        ("add.rn.s32 %r1, %r2, %r3;", "rn"),
        ("add.up.f32 %f1, %f2, %f3;", "up"),
        ("add.s32.x %r1, %r2, %r3;", "unknown modifier .x"),
        ("fma.f32 %f1, %f2, %f3, %f1;", "a rounding mode"),
        ("mma.sync.aligned.m8n8k4 %r1;", "unknown instruction"),
        ("tex.2d.v4.f32.f32 %r1;", "unknown instruction"),
        ("cp.async.ca.shared.global [%x], [%a], 4;", "unknown instruction"),
        ("shfl.bfly.b32 %r1, %r2, 1, 31;", ".sync is missing"),
        ("cvt.f32.f64 %f1, %g1;", "rounding mode"),
        ("cvt.s32.f32 %r1, %f1;", "rounding mode"),
        ("cvt.rn.f64.f32 %g1, %f1;", "exact"),
        ("add.s32 %r1, %d2, %r3;", "64 bits"),
        ("add.s32 %r1, %r2;", "expected 3 operands"),
        ("add.s32 %r1, %r2, %nothing;", "is not a register"),
        ("add.f32 %f1, 1, %f2;", "integer where a floating-point"),
        ("st.const.u32 [%a], %r1;", "read-only"),
        ("ld.global.v2.u32 %r1, [%a];", "vector"),
        ("ld.global.v4.f64 {%d1, %d2, %d3, %d4}, [%a];", "at most 16 bytes"),
        ("bra nowhere;", "label nowhere does not exist"),
        ("call nobody;", "nobody"),
        ("add.f16 %h1, %h2, %h3;", "type does not fit"),
        ("setp.ltu.s32 %p1, %r1, %r2;", "comparison"),
        ("atom.global.sub.u32 %r1, [%a], 1;", "an atomic operation"),
        ("@%r1 ret;", "is not a predicate"),
        (".reg .b99 %q;", "unknown type"),
        (".surprise;", "unknown directive"),
        ("mov.u32 %r1, 0q12;", "malformed number"),
        ("mov.u32 %r1, #;", "unexpected character"),
    ] {
        refused(&kernel(&format!("{instruction} // here")), part);
    }
}

#[test]
fn approximate_instructions_need_a_declaration() {
    for instruction in [
        "ex2.approx.f32 %f1, %f2;",
        "rcp.approx.ftz.f64 %g1, %g2;",
        "div.full.f32 %f1, %f2, %f3;",
        "add.rn.ftz.f32 %f1, %f2, %f3;",
        "cvt.rn.ftz.f32.s32 %f1, %r1;",
        "setp.lt.ftz.f32 %p1, %f1, %f2;",
        "sqrt.approx.f32 %f1, %f2;",
    ] {
        let source = kernel(&format!("{instruction} // here"));
        if instruction.starts_with("cvt") {
            // Flushing does not apply to an integer source, but it is spelled out.
            assert!(Module::parse(&source).is_err());
            continue;
        }
        refused(&source, "is approximate, and the entry point k");
        Module::parse_with(&source, &Approximate::Allow).unwrap();
        let named = Approximate::Only(["k".to_owned()].into());
        Module::parse_with(&source, &named).unwrap();
        let other = Approximate::Only(["other".to_owned()].into());
        assert!(Module::parse_with(&source, &other).is_err());
    }
    // Also behind a call.
    let source = ".version 8.5\n.target sm_70\n.address_size 64\n.func f() { .reg .f32 %x;\n\
                  ex2.approx.f32 %x, %x; // here\n ret; }\n.visible .entry k() { call f; ret; }";
    refused(source, "entry point k");
}

#[test]
fn malformed_modules() {
    for source in [
        "",
        ".version 8.5",
        ".version 5.0\n.target sm_70\n",
        ".version 8.5\n.target sm_70\n.address_size 32\n",
        ".version 8.5\n.target sm_70\n.visible .entry k() {",
        ".version 8.5\n.target sm_70\n.global .u32 x[2] = {1, 2, 3};",
        ".version 8.5\n.target sm_70\n.global .u32 x; .global .u32 x;",
        ".version 8.5\n.target sm_70\n.extern .global .u32 x;",
        ".version 8.5\n.target sm_70\n.global .u8 x[99999999999];",
        ".version 8.5\n.target sm_70\n/* never closed",
        ".version 8.5\n.target sm_70\n.entry k() { .reg .b32 %r<70000>; }",
        ".version 8.5\n.target sm_70\n.entry k() { X: X: ret; }",
        ".version 8.5\n.target sm_70\n.func f(); .entry k() { call f; }",
    ] {
        assert!(matches!(Module::parse(source), Err(Error::Load { .. })), "{source}");
    }
}

const FIXTURES: [&str; 3] = [
    include_str!("../ptx/basic.ptx"),
    include_str!("../ptx/calls.ptx"),
    include_str!("../ptx/speed.ptx"),
];

/// Loads a text and, if it loads, runs its kernels on garbage: anything but a panic passes.
fn survive(source: &str) {
    let Ok(module) = Module::parse_with(source, &Approximate::Allow) else { return };
    let names: Vec<String> = module.entries().map(str::to_owned).collect();
    let mut device = Device::with_memory(0, 1 << 26);
    device.set_checks(Checks { step_limit: 3000, ..Checks::default() });
    let Ok(loaded) = device.load(module) else { return };
    let buffer = device.alloc(4096).unwrap();
    device.fill(buffer, 4096, &[1, 0, 0, 0]).unwrap();
    for name in names {
        let info = loaded.entry(&name).unwrap();
        let size = info.params.last().map_or(0, |p| p.offset + p.size) as usize;
        let mut params = vec![3; size];
        for param in info.params.iter().filter(|param| param.size == 8) {
            let at = param.offset as usize;
            params[at..at + 8].copy_from_slice(&buffer.to_le_bytes());
        }
        let _ = device.launch(&loaded, &name, Launch::new(2, 48), &params);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn mutated_modules_never_panic(
        which in 0..FIXTURES.len(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..4u8), 1..6),
    ) {
        let mut tokens: Vec<&str> = FIXTURES[which].split_inclusive([' ', ',', '\n', '.', ';']).collect();
        for (at, from, kind) in edits {
            let (at, from) = (at.index(tokens.len()), from.index(tokens.len()));
            match kind {
                0 => { tokens.remove(at); }
                1 => tokens[at] = tokens[from],
                2 => tokens.insert(at, tokens[from]),
                _ => tokens.swap(at, from),
            }
        }
        survive(&tokens.concat());
    }

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}") {
        let _ = Module::parse(&text);
        let _ = Module::parse(&format!(".version 8.5\n.target sm_70\n.address_size 64\n{text}"));
        let _ = Module::parse(&kernel(&text));
    }
}
