//! Settings of the vendor's libraries, whether this build uses them or not.

pub use crate::workspace::{WORKSPACE_VARIABLE, WorkspaceConfig};

/// Returns the vendor's libraries that this build uses, each with its state on this machine.
#[must_use]
pub fn libraries() -> Vec<(&'static str, String)> {
    Vec::from([
        #[cfg(feature = "cublas")]
        (crate::cublas::LIBRARY, availability(crate::cublas::find())),
        #[cfg(feature = "cudnn")]
        (crate::cudnn::LIBRARY, availability(crate::cudnn::find())),
    ])
}

#[cfg(any(feature = "cublas", feature = "cudnn"))]
fn availability(found: crate::Result<()>) -> String {
    match found {
        Ok(()) => "found".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::WorkspaceConfig;

    #[test]
    fn settings_are_told_apart() {
        let of = |value| WorkspaceConfig::of(Some(value));
        assert_eq!(WorkspaceConfig::of(None), WorkspaceConfig::Unset);
        assert_eq!(of(":16:8"), WorkspaceConfig::Repeats(":16:8".into()));
        for other in [":0:0", ":4096:2:16:8", ":32:8"] {
            assert_eq!(of(other), WorkspaceConfig::Other(other.into()));
        }
        for unclear in ["", ":", "4096:8", ":4096", ":4096:8:", ":a:8", ":-1:8", ":4096:2:16"] {
            assert_eq!(of(unclear), WorkspaceConfig::Unclear(unclear.into()));
        }
        assert!(of(":32:8").to_string().starts_with(":32:8: not one of :4096:8 and :16:8"));
    }
}
