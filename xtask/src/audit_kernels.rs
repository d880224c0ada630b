//! `cargo xtask audit-kernels`: reads the committed PTX and rejects, in kernels declared
//! `Portable`, every instruction whose result could depend on the schedule or the device.
//!
//! The audit reads the text that the driver receives, so it checks the compiler's output, not the
//! intent of the source.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, bail};

use crate::build_kernels::{ptx_folder, read_manifest};

/// Flags of `cargo xtask audit-kernels`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: Args) -> anyhow::Result<()> {
    let manifest = read_manifest()?;
    let mut faults = Vec::new();
    let mut audited = 0;
    for family in &manifest.family {
        let path = ptx_folder().join(format!("{}.ptx", family.name));
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let portable: Vec<Audited<'_>> = family
            .entry
            .iter()
            .filter(|e| e.level == "Portable")
            .map(|e| Audited { name: &e.name, tickets: e.tickets.is_some() })
            .collect();
        audited += portable.len();
        let shown = format!("crates/cuda-kernels/ptx/{}.ptx", family.name);
        for fault in audit(&text, &portable) {
            faults.push(format!("{shown}:{}: {}: {}", fault.line, fault.kernel, fault.what));
        }
    }
    audit_host(&crate::root().join("crates/cuda-kernels/src"), &mut faults)?;
    if !faults.is_empty() {
        bail!("{} violations in Portable kernels\n{}", faults.len(), faults.join("\n"));
    }
    eprintln!("{audited} Portable kernels in {} families: no violation", manifest.family.len());
    Ok(())
}

/// A kernel to audit.
#[derive(Debug, Clone, Copy)]
struct Audited<'a> {
    name: &'a str,
    /// True if it declares a reason to use the value that an atomic returns.
    tickets: bool,
}

/// A broken rule.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    line: usize,
    kernel: String,
    what: String,
}

/// An instruction or directive of a function body.
#[derive(Debug)]
struct Statement {
    line: usize,
    text: String,
}

/// Audits the named entry points and every function that they call.
fn audit(ptx: &str, kernels: &[Audited<'_>]) -> Vec<Fault> {
    let functions = functions(ptx);
    let mut faults = Vec::new();
    for kernel in kernels {
        let mut seen = BTreeSet::new();
        let mut open = vec![kernel.name.to_owned()];
        while let Some(name) = open.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            let fault = |line, what: String| Fault { line, kernel: kernel.name.to_owned(), what };
            let Some(body) = functions.get(&name) else {
                faults.push(fault(0, format!("{name} has no body in this file")));
                continue;
            };
            for statement in body {
                for what in broken_rules(statement) {
                    faults.push(fault(statement.line, what));
                }
                if !kernel.tickets
                    && let Some(what) = ticket(statement, body)
                {
                    faults.push(fault(statement.line, what));
                }
                if let Some(callee) = callee(statement) {
                    open.push(callee);
                }
            }
        }
    }
    faults
}

/// Returns the rules that a statement breaks.
fn broken_rules(statement: &Statement) -> Vec<String> {
    const FLOATS: [&str; 7] = ["f16", "f16x2", "bf16", "bf16x2", "f32", "f64", "tf32"];
    const ARITHMETIC: [&str; 8] = ["add", "sub", "mul", "mad", "fma", "div", "rcp", "sqrt"];
    const REGISTERS: [&str; 8] = [
        "%smid",
        "%nsmid",
        "%clock",
        "%globaltimer",
        "%warpid",
        "%nwarpid",
        "%envreg",
        "%total_smem_size",
    ];
    let mut broken = Vec::new();
    let opcode = opcode(&statement.text);
    let parts: Vec<&str> = opcode.split('.').collect();
    let has = |part: &str| parts.contains(&part);
    let float = FLOATS.iter().any(|t| has(t));
    let head = parts[0];
    if float && (has("red") || head == "atom" || head == "red" || has("reduce")) {
        broken.push(format!("`{opcode}`: float atomics add in the order of arrival"));
    }
    if head == "atom" && (has("cas") || has("exch")) {
        broken.push(format!("`{opcode}`: an exchange can hide a float atomic"));
    }
    for modifier in ["approx", "ftz", "full"] {
        if has(modifier) {
            broken.push(format!("`{opcode}`: .{modifier} does not give IEEE results"));
        }
    }
    if float && ARITHMETIC.contains(&head) && !has("rn") {
        broken.push(format!("`{opcode}`: no .rn, so the rounding or a contraction is open"));
    }
    if float && ["mma", "wmma", "wgmma", "tcgen05"].contains(&head) {
        broken.push(format!("`{opcode}`: tensor cores add in an order that depends on the device"));
    }
    if head == "activemask" {
        broken.push(format!("`{opcode}`: which lanes are active depends on the schedule"));
    }
    for register in REGISTERS {
        if statement.text.contains(register) {
            broken.push(format!("{register} depends on the device or on the schedule"));
        }
    }
    broken
}

/// Returns the fault of a statement whose atomic returns a value that is used: it depends on the
/// order of arrival.
fn ticket(statement: &Statement, body: &[Statement]) -> Option<String> {
    let opcode = opcode(&statement.text);
    if !opcode.starts_with("atom.") {
        return None;
    }
    let operands = statement.text.split_once(opcode)?.1;
    let result = operands.split(',').next()?.trim();
    let uses = body
        .iter()
        .flat_map(|s| s.text.split(|c: char| !(c.is_alphanumeric() || c == '%' || c == '_')))
        .filter(|word| *word == result)
        .count();
    (uses > 1).then(|| {
        format!("`{opcode}`: its old value is used, and the kernel declares no `// tickets:`")
    })
}

/// Returns the opcode with its modifiers, after a guard such as `@%p1`.
fn opcode(statement: &str) -> &str {
    let mut words = statement.split_whitespace();
    let first = words.next().unwrap_or_default();
    if first.starts_with('@') { words.next().unwrap_or_default() } else { first }
}

/// Returns the function that a `call` statement names.
fn callee(statement: &Statement) -> Option<String> {
    if !opcode(&statement.text).starts_with("call") {
        return None;
    }
    let rest = statement.text.split_once("call")?.1;
    // The name follows an optional result list in parentheses.
    let rest = rest.split_once(char::is_whitespace)?.1.trim_start();
    let rest = if rest.starts_with('(') { rest.split_once(')')?.1 } else { rest };
    let name = rest.trim_start_matches([',', ' ', '\t', '\n']);
    let name: String = name
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_' || *c == '$' || *c == '%')
        .collect();
    (!name.is_empty()).then_some(name)
}

/// Returns the bodies of all functions and entry points, by name.
fn functions(ptx: &str) -> BTreeMap<String, Vec<Statement>> {
    let mut found: BTreeMap<String, Vec<Statement>> = BTreeMap::new();
    let mut header = String::new();
    let mut name: Option<String> = None;
    let mut depth = 0usize;
    // True inside the braces of a table's values, which are not statements.
    let mut values = false;
    let mut statement = String::new();
    let mut started = 0;
    for (index, line) in ptx.lines().enumerate() {
        let line = line.split("//").next().unwrap_or_default();
        for c in line.chars().chain(['\n']) {
            match (depth, c) {
                (_, '}') if values => values = false,
                _ if values => {}
                (0, '{') if header.contains('=') => values = true,
                (0, '{') => {
                    name = function_name(&header);
                    header.clear();
                    depth = 1;
                }
                (0, ';') => header.clear(),
                (0, _) => header.push(c),
                (_, '{') if statement.trim().is_empty() => depth += 1,
                (_, '}') if statement.trim().is_empty() => {
                    depth -= 1;
                    if depth == 0 {
                        name = None;
                    }
                }
                (_, ';') => {
                    if let Some(name) = &name {
                        let text = statement.trim().to_owned();
                        found
                            .entry(name.clone())
                            .or_default()
                            .push(Statement { line: started, text });
                    }
                    statement.clear();
                }
                (_, ':') if !statement.trim().contains(char::is_whitespace) => statement.clear(),
                _ => {
                    if statement.trim().is_empty() {
                        started = index + 1;
                    }
                    statement.push(c);
                }
            }
        }
    }
    found
}

/// Returns the name in `.visible .entry NAME(` or `.func (.param ...) NAME(`.
fn function_name(header: &str) -> Option<String> {
    let rest = header
        .split_once(".entry")
        .or_else(|| header.split_once(".func"))
        .map(|(_, rest)| rest.trim_start())?;
    let rest = if rest.starts_with('(') { rest.split_once(')')?.1.trim_start() } else { rest };
    let name: String =
        rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_' || *c == '$').collect();
    (!name.is_empty()).then_some(name)
}

/// Audits the host side: a grid must depend only on the shape, so no code may ask the device for
/// its size.
fn audit_host(folder: &Path, faults: &mut Vec<String>) -> anyhow::Result<()> {
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path)?;
                let shown = path.strip_prefix(crate::root()).unwrap_or(&path).display().to_string();
                faults.extend(host_faults(&shown, &text));
            }
        }
    }
    Ok(())
}

fn host_faults(shown: &str, text: &str) -> Vec<String> {
    const QUERIES: [&str; 4] =
        [".attribute(", "MULTIPROCESSOR_COUNT", "occupancy_", "for_num_elems"];
    let mut faults = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        for query in QUERIES {
            if code.contains(query) {
                faults.push(format!(
                    "{shown}:{}: `{query}`: a launch must be a function of the shape alone",
                    index + 1
                ));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(body: &str) -> Vec<Fault> {
        let ptx = format!(".visible .entry k(\n.param .u64 k_0\n)\n{{\n{body}\nret;\n}}\n");
        audit(&ptx, &[Audited { name: "k", tickets: false }])
    }

    #[track_caller]
    fn planted(instruction: &str, word: &str) {
        let faults = faults_of(instruction);
        assert_eq!(faults.len(), 1, "{instruction}: {faults:?}");
        assert_eq!(faults[0].line, 5);
        assert!(faults[0].what.contains(word), "{instruction}: {faults:?}");
    }

    #[test]
    fn each_rule_catches_its_planted_fault() {
        planted("red.global.add.f32 [%rd1], %f1;", "order of arrival");
        planted("atom.shared.add.f64 %fd1, [%rd1], %fd2;", "order of arrival");
        planted("@%p1 atom.global.add.noftz.f16x2 %r1, [%rd1], %r2;", "order of arrival");
        planted("atom.global.cas.b32 %r1, [%rd1], %r2, %r3;", "exchange");
        planted("sqrt.approx.rn.f32 %f1, %f2;", ".approx");
        planted("add.rn.ftz.f32 %f1, %f2, %f3;", ".ftz");
        planted("div.full.rn.f32 %f1, %f2, %f3;", ".full");
        planted("ex2.approx.f32 %f1, %f2;", ".approx");
        planted("add.f32 %f1, %f2, %f3;", "no .rn");
        planted("mul.f64 %fd1, %fd2, %fd3;", "no .rn");
        planted("mad.f32 %f1, %f2, %f3, %f4;", "no .rn");
        planted("fma.rz.f32 %f1, %f2, %f3, %f4;", "no .rn");
        planted("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1}, {%r1};", "tensor");
        planted("mov.u32 %r1, %smid;", "%smid");
        planted("mov.u32 %r1, %nsmid;", "%nsmid");
        planted("mov.u64 %rd1, %clock64;", "%clock");
        planted("mov.u64 %rd1, %globaltimer;", "%globaltimer");
        planted("mov.u32 %r1, %warpid;", "%warpid");
        planted("activemask.b32 %r1;", "schedule");
        planted("atom.global.add.u32 %r1, [%rd1], 1;\nst.global.u32 [%rd2], %r1;", "tickets");
    }

    #[test]
    fn clean_code_passes() {
        let body = "ld.param.u64 %rd1, [k_0];\nmov.u32 %r1, %ctaid.x;\n\
            $L_1:\nfma.rn.f32 %f1, %f2, %f3, %f4;\n@%p1 bra $L_1;\n\
            atom.global.add.u64 %rd9, [%rd1], %rd3;\nred.global.max.u32 [%rd1], %r1;\n\
            cvt.rn.f32.f64 %f1, %fd1;\n// add.f32 in a comment\nneg.f32 %f1, %f2;\n\
            { .reg .b32 t; mov.b64 {t, %r1}, %fd1; }";
        assert_eq!(faults_of(body), []);
    }

    #[test]
    fn called_functions_are_audited() {
        let ptx = ".func (.param .b32 r) f(\n.param .b32 p\n)\n{\nadd.f32 %f1, %f2, %f3;\nret;\n}\n\
            .func g()\n{\nadd.f32 %f1, %f2, %f3;\nret;\n}\n\
            .visible .entry k()\n{\n{\ncall.uni (retval0),\nf,\n(\nparam0\n);\n}\nret;\n}\n\
            .visible .entry fast()\n{\nadd.f32 %f1, %f2, %f3;\nret;\n}\n";
        let faults = audit(ptx, &[Audited { name: "k", tickets: false }]);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert_eq!(faults[0].line, 5);
    }

    #[test]
    fn tables_do_not_hide_kernels() {
        let ptx =
            ".const .align 8 .b8 t[4] = {1, 2, 3, 4};\n.entry k()\n{\nadd.f32 %f1, %f2, %f3;\n}\n";
        assert_eq!(audit(ptx, &[Audited { name: "k", tickets: false }]).len(), 1);
    }

    #[test]
    fn declared_tickets_pass() {
        let ptx = ".entry k()\n{\natom.global.add.u32 %r1, [%rd1], 1;\nst.u32 [%rd2], %r1;\n}\n";
        assert_eq!(audit(ptx, &[Audited { name: "k", tickets: true }]), []);
        assert_eq!(audit(ptx, &[Audited { name: "k", tickets: false }]).len(), 1);
    }

    #[test]
    fn a_kernel_without_a_body_is_a_fault() {
        assert_eq!(audit("", &[Audited { name: "k", tickets: false }]).len(), 1);
    }

    #[test]
    fn launches_that_ask_the_device_are_faults() {
        let text = "let n = ctx.attribute(X)?;\n// ctx.attribute(X)\n";
        assert_eq!(host_faults("a.rs", text).len(), 1);
    }
}
