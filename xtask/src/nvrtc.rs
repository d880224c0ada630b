//! The compiler that `build-kernels` drives: NVRTC, loaded at run time, and `ptxas`.
//!
//! This is the only module of xtask with unsafe code: each call crosses into NVRTC's C interface.
//! Both tools are searched where the user names them, then in a CUDA toolkit, then on the system.
//! If none is found, they are installed from NVIDIA's Python wheels into `target/`.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;

use anyhow::{Context, bail, ensure};
use libloading::{Library, Symbol};

/// The release that builds the committed PTX. Another release may emit other text.
pub(crate) const VERSION: (i32, i32) = (12, 6);
/// The exact wheels to install if no toolkit is found.
const WHEEL_VERSION: &str = "12.6.85";
/// The wheel whose `ptxas` makes machine code to embed.
const CUBIN_WHEEL_VERSION: &str = "12.9.86";

type Program = *mut std::ffi::c_void;
type Status = c_int;

/// A loaded NVRTC.
#[derive(Debug)]
pub(crate) struct Nvrtc {
    library: Library,
    version: (i32, i32),
    origin: String,
}

impl Nvrtc {
    /// Finds NVRTC: `SAMEBITS_NVRTC`, `CUDA_PATH`, the system, the wheel.
    ///
    /// A library that the variable names is used whatever its release; the other places must have
    /// [`VERSION`].
    pub(crate) fn find() -> anyhow::Result<Nvrtc> {
        if let Some(path) = std::env::var_os("SAMEBITS_NVRTC") {
            return Nvrtc::open(Path::new(&path))
                .with_context(|| format!("SAMEBITS_NVRTC names {}", Path::new(&path).display()));
        }
        let mut candidates = Vec::new();
        if let Some(toolkit) = std::env::var_os("CUDA_PATH") {
            for folder in ["lib64", "lib", "targets/x86_64-linux/lib"] {
                candidates.push(Path::new(&toolkit).join(folder).join("libnvrtc.so.12"));
            }
        }
        candidates.push(PathBuf::from("libnvrtc.so.12"));
        for candidate in candidates {
            if let Ok(found) = Nvrtc::open(&candidate)
                && found.version == VERSION
            {
                return Ok(found);
            }
        }
        let folder = wheel("nvidia-cuda-nvrtc-cu12", WHEEL_VERSION)?;
        Nvrtc::open(&folder.join("nvidia/cuda_nvrtc/lib/libnvrtc.so.12"))
    }

    fn open(path: &Path) -> anyhow::Result<Nvrtc> {
        // SAFETY: NVRTC's initialisers do nothing but set up its own state.
        let library = unsafe { Library::new(path) }
            .with_context(|| format!("cannot load {}", path.display()))?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the signature is nvrtc.h's; both pointers are to live integers.
        let status = unsafe {
            let call: Symbol<'_, unsafe extern "C" fn(*mut c_int, *mut c_int) -> Status> =
                library.get(b"nvrtcVersion\0")?;
            call(&mut major, &mut minor)
        };
        ensure!(status == 0, "nvrtcVersion failed with status {status}");
        let origin = path.display().to_string();
        Ok(Nvrtc { library, version: (major, minor), origin })
    }

    /// Returns the major and minor release.
    pub(crate) fn version(&self) -> (i32, i32) {
        self.version
    }

    /// Returns the file that it was loaded from.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// Compiles `source` to PTX. `headers` are (name, text) pairs that `#include` finds.
    ///
    /// # Errors
    ///
    /// The compiler's log, if it rejects the source.
    pub(crate) fn compile(
        &self,
        name: &str,
        source: &str,
        headers: &[(String, String)],
        flags: &[&str],
    ) -> anyhow::Result<String> {
        let c = |text: &str| CString::new(text).context("a NUL byte in a kernel source");
        let (name_c, source_c) = (c(name)?, c(source)?);
        let names: Vec<CString> = headers.iter().map(|h| c(&h.0)).collect::<Result<_, _>>()?;
        let texts: Vec<CString> = headers.iter().map(|h| c(&h.1)).collect::<Result<_, _>>()?;
        let flags: Vec<CString> = flags.iter().map(|f| c(f)).collect::<Result<_, _>>()?;
        let pointers =
            |list: &[CString]| list.iter().map(|s| s.as_ptr()).collect::<Vec<*const c_char>>();
        let (names_p, texts_p, flags_p) = (pointers(&names), pointers(&texts), pointers(&flags));

        let mut program: Program = ptr::null_mut();
        // SAFETY: signatures are nvrtc.h's; every pointer is to a live NUL-terminated string or
        // an array of `headers.len()` (`flags.len()`) of them, which NVRTC copies.
        unsafe {
            let create: Symbol<
                '_,
                unsafe extern "C" fn(
                    *mut Program,
                    *const c_char,
                    *const c_char,
                    c_int,
                    *const *const c_char,
                    *const *const c_char,
                ) -> Status,
            > = self.library.get(b"nvrtcCreateProgram\0")?;
            let status = create(
                &mut program,
                source_c.as_ptr(),
                name_c.as_ptr(),
                headers.len() as c_int,
                texts_p.as_ptr(),
                names_p.as_ptr(),
            );
            ensure!(status == 0, "nvrtcCreateProgram failed with status {status}");
            let compile: Symbol<
                '_,
                unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Status,
            > = self.library.get(b"nvrtcCompileProgram\0")?;
            let status = compile(program, flags_p.len() as c_int, flags_p.as_ptr());
            let log = self.text(program, b"nvrtcGetProgramLogSize\0", b"nvrtcGetProgramLog\0")?;
            if status != 0 {
                self.destroy(&mut program)?;
                bail!("{name} does not compile (status {status}):\n{log}");
            }
            let ptx = self.text(program, b"nvrtcGetPTXSize\0", b"nvrtcGetPTX\0")?;
            self.destroy(&mut program)?;
            if !log.trim().is_empty() {
                bail!("{name} compiles with warnings; kernels must not:\n{log}");
            }
            Ok(ptx)
        }
    }

    /// Reads a text of the program.
    ///
    /// # Safety
    ///
    /// `program` must be live, and `size` and `get` must name a size getter and its text getter.
    unsafe fn text(&self, program: Program, size: &[u8], get: &[u8]) -> anyhow::Result<String> {
        // SAFETY: both signatures are nvrtc.h's; the buffer has the length that NVRTC asked for.
        unsafe {
            let size_of: Symbol<'_, unsafe extern "C" fn(Program, *mut usize) -> Status> =
                self.library.get(size)?;
            let mut length = 0usize;
            ensure!(size_of(program, &mut length) == 0, "NVRTC does not tell a text's size");
            let mut buffer = vec![0u8; length.max(1)];
            let get: Symbol<'_, unsafe extern "C" fn(Program, *mut c_char) -> Status> =
                self.library.get(get)?;
            ensure!(get(program, buffer.as_mut_ptr().cast()) == 0, "NVRTC does not give a text");
            Ok(CStr::from_bytes_until_nul(&buffer)?.to_str()?.to_owned())
        }
    }

    /// # Safety
    ///
    /// `program` must be live; the call destroys it.
    unsafe fn destroy(&self, program: &mut Program) -> anyhow::Result<()> {
        // SAFETY: the signature is nvrtc.h's and the caller vouches for the program.
        unsafe {
            let call: Symbol<'_, unsafe extern "C" fn(*mut Program) -> Status> =
                self.library.get(b"nvrtcDestroyProgram\0")?;
            call(program);
        }
        Ok(())
    }
}

/// Finds `ptxas`: `SAMEBITS_PTXAS`, `CUDA_PATH`, the search path, the wheel. The release must be
/// [`VERSION`] unless the variable names the tool.
pub(crate) fn find_ptxas() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("SAMEBITS_PTXAS") {
        return Ok(path.into());
    }
    let mut candidates = Vec::new();
    if let Some(toolkit) = std::env::var_os("CUDA_PATH") {
        candidates.push(Path::new(&toolkit).join("bin/ptxas"));
    }
    candidates.push(PathBuf::from("ptxas"));
    let wanted = format!("release {}.{}", VERSION.0, VERSION.1);
    for candidate in candidates {
        if let Ok(output) = Command::new(&candidate).arg("--version").output()
            && String::from_utf8_lossy(&output.stdout).contains(&wanted)
        {
            return Ok(candidate);
        }
    }
    wheel_ptxas(WHEEL_VERSION)
}

/// Finds a `ptxas` that knows sm_100, which that of [`VERSION`] does not: `SAMEBITS_CUBIN_PTXAS`, the wheel.
pub(crate) fn find_cubin_ptxas() -> anyhow::Result<PathBuf> {
    match std::env::var_os("SAMEBITS_CUBIN_PTXAS") {
        Some(path) => Ok(path.into()),
        None => wheel_ptxas(CUBIN_WHEEL_VERSION),
    }
}

fn wheel_ptxas(version: &str) -> anyhow::Result<PathBuf> {
    let ptxas = wheel("nvidia-cuda-nvcc-cu12", version)?.join("nvidia/cuda_nvcc/bin/ptxas");
    // The standard library's zip reader drops the executable bit.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&ptxas, std::fs::Permissions::from_mode(0o755))
            .with_context(|| format!("cannot make {} executable", ptxas.display()))?;
    }
    Ok(ptxas)
}

/// Downloads and unpacks a wheel below `target/` unless it is there, and returns the folder.
fn wheel(package: &str, version: &str) -> anyhow::Result<PathBuf> {
    let folder = crate::target().join("cuda-wheels").join(format!("{package}-{version}"));
    let done = folder.join("unpacked");
    if done.exists() {
        return Ok(folder);
    }
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let python = |args: &[&str]| -> anyhow::Result<()> {
        let status = Command::new("python3")
            .args(args)
            .current_dir(&folder)
            .status()
            .context("cannot start python3, which installs NVIDIA's wheels")?;
        ensure!(
            status.success(),
            "python3 {} failed: set SAMEBITS_NVRTC and SAMEBITS_PTXAS to the files of a CUDA \
             {}.{} toolkit instead",
            args.join(" "),
            VERSION.0,
            VERSION.1
        );
        Ok(())
    };
    let requirement = format!("{package}=={version}");
    python(&[
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary=:all:",
        "--dest",
        ".",
        &requirement,
    ])?;
    let archive = std::fs::read_dir(&folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|e| e == "whl"))
        .with_context(|| format!("pip left no wheel in {}", folder.display()))?;
    let archive = archive.display().to_string();
    python(&["-m", "zipfile", "-e", &archive, "."])?;
    std::fs::remove_file(&archive)?;
    std::fs::write(&done, "")?;
    Ok(folder)
}
