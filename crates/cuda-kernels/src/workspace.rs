//! The setting of cuBLAS's workspace.

use std::fmt;

/// The environment variable that sets cuBLAS's workspace.
pub const WORKSPACE_VARIABLE: &str = "CUBLAS_WORKSPACE_CONFIG";

/// The value of [`WORKSPACE_VARIABLE`].
///
/// cuBLAS may give different bits from run to run if several streams share its workspace. Either of
/// two settings prevents that. A workspace and a handle for each stream prevent it too, and this
/// crate uses these, so its matrix products need no setting. A setting that cuBLAS would not
/// understand is an error, because the user expects an effect of it.
///
/// # Examples
///
/// ```
/// use samebits_cuda_kernels::vendor::WorkspaceConfig;
///
/// assert_eq!(WorkspaceConfig::of(Some(":4096:8")), WorkspaceConfig::Repeats(":4096:8".into()));
/// let unclear = WorkspaceConfig::of(Some("4096"));
/// assert!(unclear.to_string().contains("expected :SIZE:COUNT"));
/// ```
///
/// # References
///
/// cuBLAS documentation, "Results reproducibility".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkspaceConfig {
    /// The variable is not set.
    Unset,
    /// One of the two settings with which cuBLAS repeats its bits, even if streams share a
    /// workspace.
    Repeats(String),
    /// Another setting that cuBLAS understands.
    Other(String),
    /// Not a valid setting.
    Unclear(String),
}

impl WorkspaceConfig {
    /// Returns the setting of the process's environment.
    #[must_use]
    pub fn from_environment() -> WorkspaceConfig {
        let value = std::env::var_os(WORKSPACE_VARIABLE);
        WorkspaceConfig::of(value.as_ref().map(|value| value.to_string_lossy()).as_deref())
    }

    /// Returns the setting for a value: sizes in KiB and the number of each, as in `:4096:2:16:8`.
    #[must_use]
    pub fn of(value: Option<&str>) -> WorkspaceConfig {
        let Some(value) = value else { return WorkspaceConfig::Unset };
        let text = value.to_owned();
        if [":4096:8", ":16:8"].contains(&value) {
            return WorkspaceConfig::Repeats(text);
        }
        let numbers: Option<Vec<u64>> = value
            .strip_prefix(':')
            .and_then(|list| list.split(':').map(|number| number.parse().ok()).collect());
        match numbers {
            Some(numbers) if numbers.len().is_multiple_of(2) => WorkspaceConfig::Other(text),
            _ => WorkspaceConfig::Unclear(text),
        }
    }
}

impl fmt::Display for WorkspaceConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = if cfg!(feature = "cublas") {
            "matrix products here have a workspace of their own"
        } else {
            "only cuBLAS reads it, which is not used"
        };
        match self {
            WorkspaceConfig::Unset => write!(f, "not set; {own}"),
            WorkspaceConfig::Repeats(value) => {
                write!(f, "{value}, with which cuBLAS repeats its bits")
            }
            WorkspaceConfig::Other(value) => write!(
                f,
                "{value}: not one of :4096:8 and :16:8, with which cuBLAS repeats its bits; {own}"
            ),
            WorkspaceConfig::Unclear(value) => write!(
                f,
                "{value}: expected :SIZE:COUNT with a size in KiB, for example :4096:8; {own}"
            ),
        }
    }
}
