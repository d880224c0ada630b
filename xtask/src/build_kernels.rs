//! `cargo xtask build-kernels`: compiles `kernels/*.cu` to the committed PTX and its manifest, and
//! writes the typed launch stubs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::headers::{Declarations, FOLDER};
use crate::nvrtc::{self, Nvrtc};
use crate::stubs;

/// The numerics contract as compiler flags: every float operation is rounded separately, subnormals
/// are kept, division and square root are correctly rounded.
const FLAGS: [&str; 7] = [
    "--fmad=false",
    "--ftz=false",
    "--prec-div=true",
    "--prec-sqrt=true",
    "--gpu-architecture=compute_70",
    "--std=c++17",
    "--device-as-default-execution-space",
];

/// The PTX ISA that the text declares. NVRTC writes the newest that it knows, although the kernels
/// use nothing that new; an old driver would reject the file for that line alone. ptxas checks that
/// the text keeps to the declared ISA. ISA 8.0 is CUDA 12.0.
const ISA: &str = "8.0";

/// The real architectures for which `ptxas` must accept the PTX.
const TARGETS: [&str; 3] = ["sm_70", "sm_80", "sm_90"];

/// Flags of `cargo xtask build-kernels`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rebuild everything in memory and compare it with the committed files.
    #[arg(long)]
    check: bool,
    /// Do not assemble with ptxas; changed families then have no resource reports.
    #[arg(long)]
    no_ptxas: bool,
    /// Assemble the committed PTX to machine code in target/cubins, for the feature `cubins` of
    /// samebits-cuda-kernels, and do nothing else.
    #[arg(long, conflicts_with_all = ["check", "no_ptxas"])]
    cubins: bool,
}

/// The content of `crates/cuda-kernels/ptx/manifest.toml`.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The name and release of the compiler.
    pub(crate) compiler: String,
    /// The compiler's flags.
    pub(crate) flags: Vec<String>,
    /// The families, one per `kernels/*.cu`, by name.
    #[serde(default)]
    pub(crate) family: Vec<Family>,
}

/// A compiled source file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Family {
    /// The stem of the source and of the PTX.
    pub(crate) name: String,
    /// The SHA-256 of the source and of all headers that it includes, directly or indirectly.
    pub(crate) source: String,
    /// The SHA-256 of the PTX text.
    pub(crate) ptx: String,
    /// The `.version` of the PTX.
    pub(crate) isa: String,
    /// The `.target` of the PTX.
    pub(crate) target: String,
    /// The entry points, by name.
    pub(crate) entry: Vec<Entry>,
}

/// A kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The name of the entry point.
    pub(crate) name: String,
    /// The determinism level that the source declares.
    pub(crate) level: String,
    /// The reason for the level.
    pub(crate) reason: String,
    /// The reason for using the value that an atomic returns, if the kernel does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tickets: Option<String>,
    /// Registers, bytes spilled (stores + loads) and static shared memory, per architecture.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) resources: BTreeMap<String, [u32; 3]>,
}

/// The declarations in the comments before a kernel.
#[derive(Debug, Clone)]
struct Declared {
    level: String,
    reason: String,
    tickets: Option<String>,
}

/// Returns the folder of the committed PTX.
pub(crate) fn ptx_folder() -> PathBuf {
    crate::root().join("crates/cuda-kernels/ptx")
}

/// Reads the committed manifest.
pub(crate) fn read_manifest() -> anyhow::Result<Manifest> {
    let path = ptx_folder().join("manifest.toml");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("cannot parse {}", path.display()))
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    if args.cubins {
        return build_cubins();
    }
    let nvrtc = Nvrtc::find()?;
    let (major, minor) = nvrtc.version();
    eprintln!("compiling with NVRTC {major}.{minor} from {}", nvrtc.origin());
    let ptxas = if args.no_ptxas { None } else { Some(nvrtc::find_ptxas()?) };
    let old = read_manifest().unwrap_or_default();
    let declared = Declarations::read()?;
    let headers = read_headers(&declared)?;

    let mut new = Manifest {
        compiler: format!("NVRTC {major}.{minor}"),
        flags: FLAGS.map(str::to_owned).to_vec(),
        family: Vec::new(),
    };
    let same_compiler = old.compiler == new.compiler && old.flags == new.flags;
    if args.check && old.compiler != new.compiler {
        bail!(
            "the committed PTX was built with {}, and {} was found: set SAMEBITS_NVRTC to the \
             right library, or unset it to install it",
            old.compiler,
            new.compiler
        );
    }
    let mut stale = Vec::new();
    let include = crate::root().join(FOLDER);
    let mut written: BTreeMap<PathBuf, String> =
        declared.headers.iter().map(|(name, text)| (include.join(name), text.clone())).collect();
    for path in sources()? {
        let name = path.file_stem().and_then(|s| s.to_str()).context("odd file name")?.to_owned();
        let source = std::fs::read_to_string(&path)?;
        let used = included(&source, &headers)?;
        let hash = source_hash(&source, &used);
        let ptx_path = ptx_folder().join(format!("{name}.ptx"));
        let committed = std::fs::read_to_string(&ptx_path).unwrap_or_default();
        let known = old.family.iter().find(|f| f.name == name);
        let signatures =
            stubs::signatures(&source).with_context(|| format!("kernels/{name}.cu"))?;
        let mut stub = |family: &Family, ptx: &str| -> anyhow::Result<()> {
            stubs::compare(&family.name, &signatures, ptx)?;
            let text = stubs::render(family, &signatures, ptx, &declared.structures)?;
            written.insert(stubs::folder().join(format!("{}.rs", family.name)), text);
            Ok(())
        };
        if !args.check
            && same_compiler
            && let Some(known) = known
            && known.source == hash
            && known.ptx == digest(committed.as_bytes())
            && (ptxas.is_none() || known.entry.iter().all(|e| !e.resources.is_empty()))
        {
            stub(known, &committed)?;
            new.family.push(known.clone());
            continue;
        }
        let compile =
            || normalise(&nvrtc.compile(&format!("{name}.cu"), &source, &used, &FLAGS)?);
        let mut ptx = compile()?;
        // The compiler orders some instructions of large sources by the addresses of its own data,
        // so equal sources may give one of several texts.
        for _ in 0..ATTEMPTS {
            if !args.check || ptx == committed {
                break;
            }
            ptx = compile()?;
        }
        let mut entry = entries(&name, &source, &ptx)?;
        if let Some(ptxas) = &ptxas {
            for target in TARGETS {
                let report = assemble(ptxas, &name, &ptx, target)?;
                for entry in &mut entry {
                    let found = report.get(&entry.name).with_context(|| {
                        format!("ptxas reports nothing on {} for {target}", entry.name)
                    })?;
                    entry.resources.insert(target.to_owned(), *found);
                }
            }
        }
        let family = Family {
            source: hash,
            ptx: digest(ptx.as_bytes()),
            isa: directive(&ptx, ".version")?,
            target: directive(&ptx, ".target")?,
            name,
            entry,
        };
        stub(&family, &ptx)?;
        if args.check {
            let same = known.is_some_and(|known| {
                let mut known = known.clone();
                if ptxas.is_none() {
                    known.entry.iter_mut().for_each(|e| e.resources.clear());
                }
                known == family
            });
            if committed != ptx {
                stale.push(format!("{}: the PTX differs from what the source gives", family.name));
            } else if !same {
                stale.push(format!("{}: its part of the manifest differs", family.name));
            }
        } else {
            eprintln!("built {}: {} entry points", family.name, family.entry.len());
            std::fs::write(&ptx_path, &ptx)?;
        }
        new.family.push(family);
    }
    let names: BTreeSet<&str> = new.family.iter().map(|f| f.name.as_str()).collect();
    written
        .insert(stubs::folder().with_extension("rs"), stubs::render_index(names.iter().copied()));
    std::fs::create_dir_all(stubs::folder())?;
    std::fs::create_dir_all(&include)?;
    let generated = [(ptx_folder(), "ptx"), (stubs::folder(), "rs"), (include, "cuh")];
    for (folder, extension) in generated {
        for path in files(&folder, extension)? {
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            let compiled = extension == "ptx" && stem.is_some_and(|stem| names.contains(stem));
            if compiled || written.contains_key(&path) {
                continue;
            }
            if args.check {
                stale.push(format!("{}: no source gives it", path.display()));
            } else {
                std::fs::remove_file(&path)?;
            }
        }
    }
    for (path, text) in &written {
        if std::fs::read_to_string(path).is_ok_and(|committed| committed == *text) {
            continue;
        }
        if args.check {
            stale.push(format!("{}: differs from what the source gives", path.display()));
        } else {
            std::fs::write(path, text)?;
        }
    }
    if !args.check {
        let text = format!(
            "# Written by `cargo xtask build-kernels`. Do not edit.\n\
             # resources = [registers, bytes spilled, bytes of static shared memory]\n\n{}",
            toml::to_string(&new)?
        );
        std::fs::write(ptx_folder().join("manifest.toml"), text)?;
        return Ok(());
    }
    if same_compiler && stale.is_empty() {
        eprintln!("{} families are up to date", new.family.len());
        return Ok(());
    }
    if !same_compiler {
        stale.push("manifest: the flags differ".to_owned());
    }
    bail!("{}\nrun `cargo xtask build-kernels` and commit crates/cuda-kernels", stale.join("\n"));
}

/// The number of attempts to compile a source to the committed text.
const ATTEMPTS: usize = 12;

/// Returns `kernels/*.cu`, by name.
fn sources() -> anyhow::Result<Vec<PathBuf>> {
    files(&crate::root().join("kernels"), "cu")
}

/// Returns the name and text of every header in `kernels/include`, and of the headers that Rust
/// declares.
fn read_headers(declared: &Declarations) -> anyhow::Result<BTreeMap<String, String>> {
    let declared = declared.headers.iter();
    let mut headers: BTreeMap<String, String> =
        declared.map(|(name, text)| (format!("declared/{name}"), text.clone())).collect();
    for path in files(&crate::root().join("kernels/include"), "cuh")? {
        let name = path.file_name().and_then(|s| s.to_str()).context("odd file name")?;
        headers.insert(name.to_owned(), std::fs::read_to_string(&path)?);
    }
    Ok(headers)
}

fn files(folder: &Path, extension: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in
        std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?
    {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the headers that `source` includes, directly or indirectly, by name.
fn included(
    source: &str,
    headers: &BTreeMap<String, String>,
) -> anyhow::Result<Vec<(String, String)>> {
    let mut found = BTreeMap::new();
    let mut open = vec![source.to_owned()];
    while let Some(text) = open.pop() {
        for line in text.lines() {
            let Some(name) =
                line.trim().strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"'))
            else {
                continue;
            };
            let header = headers
                .get(name)
                .with_context(|| format!("kernels/include has no {name}, which is included"))?;
            if found.insert(name.to_owned(), header.clone()).is_none() {
                open.push(header.clone());
            }
        }
    }
    Ok(found.into_iter().collect())
}

fn source_hash(source: &str, headers: &[(String, String)]) -> String {
    let mut hasher = Sha256::new();
    for (name, text) in headers {
        hasher.update(name);
        hasher.update([0]);
        hasher.update(text);
        hasher.update([0]);
    }
    hasher.update(source);
    hex(&hasher.finalize())
}

fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Replaces the ISA version by [`ISA`] and removes call numbers from comments. NVRTC counts calls
/// over the life of the process, so the numbers depend on what was compiled before.
fn normalise(ptx: &str) -> anyhow::Result<String> {
    let written = directive(ptx, ".version")?;
    let ptx = ptx.replacen(&format!(".version {written}"), &format!(".version {ISA}"), 1);
    let mut text = String::with_capacity(ptx.len());
    for line in ptx.lines() {
        text.push_str(line.split_once(" // callseq").map_or(line, |(code, _)| code));
        text.push('\n');
    }
    Ok(text)
}

/// Returns the operand of the first `.version` or `.target` line.
fn directive(ptx: &str, name: &str) -> anyhow::Result<String> {
    ptx.lines()
        .find_map(|line| line.strip_prefix(name))
        .map(|rest| rest.trim().to_owned())
        .with_context(|| format!("the PTX has no {name}"))
}

/// Matches the entry points of the PTX with the levels that the source declares.
fn entries(family: &str, source: &str, ptx: &str) -> anyhow::Result<Vec<Entry>> {
    let declared = declared_levels(source).with_context(|| format!("kernels/{family}.cu"))?;
    let mut compiled = BTreeSet::new();
    for line in ptx.lines() {
        if let Some((_, rest)) = line.split_once(".entry ") {
            let name: String =
                rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            compiled.insert(name);
        }
    }
    ensure!(!compiled.is_empty(), "kernels/{family}.cu has no entry point");
    for name in &compiled {
        ensure!(
            declared.contains_key(name),
            "kernels/{family}.cu: {name} has no `// level: LEVEL - reason` line before it"
        );
    }
    for name in declared.keys() {
        ensure!(
            compiled.contains(name),
            "kernels/{family}.cu declares a level for {name}, which is no entry point"
        );
    }
    Ok(declared
        .into_iter()
        .map(|(name, declared)| Entry {
            name,
            level: declared.level,
            reason: declared.reason,
            tickets: declared.tickets,
            resources: BTreeMap::new(),
        })
        .collect())
}

/// Reads the `// level: LEVEL - reason` lines. Each applies to the next kernel:
/// `__global__ void NAME(` or a macro invocation `SB_SOMETHING(NAME, ...)`. Macro invocations on
/// consecutive lines share one declaration. A line `// tickets: reason` below it gives the reason
/// for using the value that an atomic returns.
fn declared_levels(source: &str) -> anyhow::Result<BTreeMap<String, Declared>> {
    let mut found = BTreeMap::new();
    let mut current: Option<Declared> = None;
    let mut named = false;
    for (index, line) in source.lines().enumerate() {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("// level:") {
            let (level, reason) = rest
                .split_once(" - ")
                .with_context(|| format!("line {}: a level needs ` - reason`", index + 1))?;
            let level = level.trim();
            ensure!(
                ["NotGuaranteed", "RunToRun", "Portable"].contains(&level),
                "line {}: there is no level {level}",
                index + 1
            );
            ensure!(
                current.is_none() || named,
                "line {}: the declaration before it has no kernel",
                index + 1
            );
            current = Some(Declared {
                level: level.to_owned(),
                reason: reason.trim().to_owned(),
                tickets: None,
            });
            named = false;
            continue;
        }
        let Some(declaration) = &mut current else { continue };
        if let Some(reason) = line.strip_prefix("// tickets:") {
            declaration.tickets = Some(reason.trim().to_owned());
            continue;
        }
        let name = if let Some((_, rest)) = line.split_once("__global__ void ") {
            rest.split('(').next()
        } else if line.starts_with("SB_") {
            line.split_once('(').and_then(|(_, rest)| rest.split([',', ')']).next())
        } else {
            // A comment may stand between; anything else ends a run of macro invocations.
            if named && !line.starts_with("//") {
                current = None;
            }
            continue;
        };
        let name = name.unwrap_or_default().trim().to_owned();
        if found.insert(name.clone(), declaration.clone()).is_some() {
            bail!("line {}: {name} is declared twice", index + 1);
        }
        named = true;
        if line.contains("__global__") {
            current = None;
        }
    }
    Ok(found)
}

/// Assembles for a real architecture. Returns registers, spilled bytes and static shared memory, by
/// entry point.
fn assemble(
    ptxas: &Path,
    family: &str,
    ptx: &str,
    target: &str,
) -> anyhow::Result<BTreeMap<String, [u32; 3]>> {
    let folder = std::env::temp_dir().join(format!("samebits-ptxas-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let (input, output) = (folder.join("in.ptx"), folder.join("out.cubin"));
    std::fs::write(&input, ptx)?;
    let result = run_ptxas(ptxas, target, &input, &output);
    std::fs::remove_dir_all(&folder)?;
    let result = result?;
    let report = String::from_utf8_lossy(&result.stderr).into_owned()
        + &String::from_utf8_lossy(&result.stdout);
    ensure!(result.status.success(), "ptxas rejects {family}.ptx for {target}:\n{report}");
    Ok(parse_ptxas(&report))
}

fn run_ptxas(
    ptxas: &Path,
    target: &str,
    input: &Path,
    output: &Path,
) -> anyhow::Result<std::process::Output> {
    Command::new(ptxas)
        .args(["-v", "-arch", target, "-o"])
        .arg(output)
        .arg(input)
        .output()
        .with_context(|| format!("cannot start {}", ptxas.display()))
}

/// The real architectures whose machine code can be embedded, as in `crates/cuda-kernels/build.rs`.
const CUBINS: [&str; 3] = ["sm_80", "sm_90", "sm_100"];

/// Assembles every family for each of [`CUBINS`]. The names of the files hold the hash of the PTX, so that
/// code of other PTX is never embedded.
fn build_cubins() -> anyhow::Result<()> {
    let ptxas = nvrtc::find_cubin_ptxas()?;
    let folder = crate::target().join("cubins");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    for target in CUBINS {
        let (folder, mut bytes) = (folder.join(target), 0);
        std::fs::create_dir_all(&folder)?;
        for input in files(&ptx_folder(), "ptx")? {
            let name = input.file_stem().and_then(|s| s.to_str()).context("odd file name")?;
            let hash = fnv(&std::fs::read(&input)?);
            let output = folder.join(format!("{name}-{hash:016x}.cubin"));
            let result = run_ptxas(&ptxas, target, &input, &output)?;
            let report = String::from_utf8_lossy(&result.stderr);
            ensure!(result.status.success(), "ptxas rejects {name}.ptx for {target}:\n{report}");
            bytes += std::fs::metadata(&output)?.len();
        }
        eprintln!("{target}: {:.1} MiB in {}", bytes as f64 / f64::from(1 << 20), folder.display());
    }
    Ok(())
}

/// Returns the FNV-1a hash of a text.
fn fnv(text: &[u8]) -> u64 {
    text.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Parses the output of `ptxas -v`.
fn parse_ptxas(report: &str) -> BTreeMap<String, [u32; 3]> {
    let before = |line: &str, word: &str| -> u32 {
        line.split(word)
            .next()
            .filter(|head| head.len() < line.len())
            .and_then(|head| head.trim_end().rsplit([' ', ',']).next())
            .and_then(|number| number.parse().ok())
            .unwrap_or(0)
    };
    let mut found: BTreeMap<String, [u32; 3]> = BTreeMap::new();
    let mut current = None;
    for line in report.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            current = rest.split('\'').next().map(str::to_owned);
        } else if let Some(name) = &current {
            let entry = found.entry(name.clone()).or_default();
            if line.contains("bytes spill stores") {
                entry[1] = before(line, " bytes spill stores") + before(line, " bytes spill loads");
            } else if line.contains("Used ") && line.contains(" registers") {
                entry[0] = before(line, " registers");
                entry[2] = before(line, " bytes smem");
                current = None;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read() {
        let source = "// level: Portable - one thread owns an output\n\
                      extern \"C\" __global__ void a(int x) {}\n\
                      // level: NotGuaranteed - float atomics\n// more\nSB_UNARY(b, x)\nSB_UNARY(c, y)\n\nSB_UNARY(d, z)";
        let found = declared_levels(source).unwrap();
        assert_eq!(found["a"].level, "Portable");
        assert_eq!(found["b"].level, "NotGuaranteed");
        assert_eq!(found["c"].reason, "float atomics");
        assert!(!found.contains_key("d"), "a blank line ends the run");
    }

    #[test]
    fn bad_levels_are_refused() {
        assert!(declared_levels("// level: Fast - x\n").is_err());
        assert!(declared_levels("// level: Portable\n").is_err());
        let two = "// level: Portable - x\n// level: Portable - y\n";
        assert!(declared_levels(two).is_err());
    }

    #[test]
    fn undeclared_entry_is_refused() {
        let ptx = ".visible .entry a(\n";
        assert!(entries("x", "", ptx).is_err());
        let source = "// level: Portable - x\n__global__ void a(\n";
        assert_eq!(entries("x", source, ptx).unwrap().len(), 1);
        let more = format!("{source}// level: Portable - x\n__global__ void b(\n");
        assert!(entries("x", &more, ptx).is_err());
    }

    #[test]
    fn what_the_compiler_counts_is_dropped() {
        let ptx = ".version 8.5\n{ // callseq 11, 0\n} // callseq 11\nret; // kept\n";
        assert_eq!(normalise(ptx).unwrap(), ".version 8.0\n{\n}\nret; // kept\n");
    }

    #[test]
    fn ptxas_reports_are_read() {
        let report = "ptxas info    : 0 bytes gmem\n\
            ptxas info    : Compiling entry function 'k' for 'sm_70'\n\
            ptxas info    : Function properties for k\n    \
            8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n\
            ptxas info    : Used 34 registers, 4096 bytes smem, 380 bytes cmem[0]\n";
        assert_eq!(parse_ptxas(report)["k"], [34, 16, 4096]);
    }

    #[test]
    fn headers_are_found_through_headers() {
        let headers = BTreeMap::from([
            ("a.cuh".to_owned(), "#include \"b.cuh\"\n".to_owned()),
            ("b.cuh".to_owned(), String::new()),
            ("c.cuh".to_owned(), String::new()),
        ]);
        let found = included("#include \"a.cuh\"\n", &headers).unwrap();
        assert_eq!(found.iter().map(|h| h.0.as_str()).collect::<Vec<_>>(), ["a.cuh", "b.cuh"]);
        assert!(included("#include \"z.cuh\"\n", &headers).is_err());
    }
}
