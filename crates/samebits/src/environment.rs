use std::fmt;

use samebits_conv_autotune as autotune;
#[cfg(feature = "cuda")]
use samebits_cuda_kernels::vendor::{self, WORKSPACE_VARIABLE, WorkspaceConfig};
use samebits_numerics::{NUMERICS_VERSION, fpenv, simd};
use samebits_tensor_core::{Determinism, Device, backend, determinism, rerun};

/// Reports the facts that affect bits and speed in this process. Store it with the results of a
/// run.
///
/// # Examples
///
/// ```
/// println!("{}", samebits::environment());
/// ```
pub fn environment() -> Environment {
    crate::install();
    current()
}

/// Reports as [`environment`], for callers that have installed the kernels.
pub(crate) fn current() -> Environment {
    #[cfg(feature = "cuda")]
    let cuda = samebits_cuda_kernels::install().map(drop).map_err(|error| error.to_string());
    #[cfg(not(feature = "cuda"))]
    let cuda = Err("this build lacks the feature `cuda`".to_owned());
    Environment {
        version: env!("CARGO_PKG_VERSION"),
        numerics_version: NUMERICS_VERSION,
        level: determinism::required(),
        rerun: rerun::times(),
        threads: threads(),
        simd: (simd::level().name(), simd::supported().name()),
        ieee: fpenv::is_ieee(),
        cuda: cuda.map(|()| devices()),
        #[cfg(feature = "cuda")]
        cublas_workspace_config: WorkspaceConfig::from_environment(),
        #[cfg(feature = "cuda")]
        libraries: vendor::libraries(),
        #[cfg(not(feature = "cuda"))]
        libraries: Vec::new(),
        autotuner: autotuner(),
        transports: samebits_distributed::transports(),
    }
}

/// Report of [`environment`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Environment {
    /// This crate's version.
    pub version: &'static str,
    /// The numerics version. Results with the same seed have the same bits in all releases with
    /// this number.
    pub numerics_version: u32,
    /// The level in force on this thread.
    pub level: Determinism,
    /// The number of times that each operation runs.
    pub rerun: usize,
    /// The number of threads that operations share; no bit depends on it.
    pub threads: usize,
    /// The instruction set in use and the best one of this machine.
    pub simd: (&'static str, &'static str),
    /// True if this thread keeps subnormals and rounds to nearest.
    pub ieee: bool,
    /// The CUDA devices with their names, or the reason why there are none.
    pub cuda: Result<Vec<(Device, String)>, String>,
    /// The value of the environment variable `CUBLAS_WORKSPACE_CONFIG`, with the feature `cuda`.
    #[cfg(feature = "cuda")]
    pub cublas_workspace_config: WorkspaceConfig,
    /// The vendor libraries that this build uses, and their availability.
    pub libraries: Vec<(&'static str, String)>,
    /// The storage mode of each device's convolution choices.
    pub autotuner: String,
    /// The transports between ranks that this build supports.
    pub transports: String,
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |what: &str, value: &dyn fmt::Display| writeln!(f, "{what:<24}{value}");
        line("samebits", &self.version)?;
        line("numerics version", &self.numerics_version)?;
        line(
            "determinism",
            &format_args!("{}, each operation runs {}", self.level, times(self.rerun)),
        )?;
        let (used, supported) = self.simd;
        line("instruction set", &format_args!("{used} (this machine has {supported})"))?;
        if let Some(found) = simd::unknown_request() {
            let refused = "operations on tensors are refused: expected portable, avx2 or avx512";
            line("SAMEBITS_SIMD", &format_args!("{found:?}; {refused}"))?;
        }
        if let Some(found) = rerun::unknown_request() {
            let refused = "operations on tensors are refused: expected a number of runs from 1";
            line(rerun::VARIABLE, &format_args!("{found:?}; {refused}"))?;
        }
        line("threads", &format_args!("{}; no bit depends on it", self.threads))?;
        line("ranks", &self.transports)?;
        let mode = if self.ieee {
            "kept"
        } else {
            "flushed to zero by other code on this thread; operations restore them while they run"
        };
        line("subnormals", &mode)?;
        match &self.cuda {
            Err(why) => line("CUDA", &format_args!("none: {why}"))?,
            Ok(devices) if devices.is_empty() => line("CUDA", &"a driver, but no device")?,
            Ok(devices) => {
                for (device, name) in devices {
                    line("CUDA", &format_args!("{device}, {name}"))?;
                }
            }
        }
        for (library, found) in &self.libraries {
            line(library, found)?;
        }
        #[cfg(feature = "cuda")]
        line(WORKSPACE_VARIABLE, &self.cublas_workspace_config)?;
        line("convolution choices", &self.autotuner)
    }
}

fn autotuner() -> String {
    let modes = backend::devices().into_iter().map(|device| match autotune::tuner(device) {
        Ok(tuner) => format!("{device}: {}", tuner.config().mode),
        Err(error) => error.to_string(),
    });
    modes.collect::<Vec<_>>().join("; ")
}

fn times(n: usize) -> String {
    if n <= 1 { "once".to_owned() } else { format!("{n} times, compared") }
}

#[allow(clippy::disallowed_methods, reason = "it is reported and decides nothing")]
pub(crate) fn threads() -> usize {
    samebits_cpu_kernels::install();
    rayon::current_num_threads()
}

fn devices() -> Vec<(Device, String)> {
    let found = backend::devices().into_iter().filter(|&device| device != Device::Cpu);
    let named = found.filter_map(|device| Some((device, backend::backend(device).ok()?.name())));
    named.collect()
}
