//! The committed PTX, embedded.

/// Name and text of every family.
pub(crate) const FAMILIES: &[(&str, &str)] = &[("scatter", include_str!("../ptx/scatter.ptx"))];

/// The text of a family.
pub(crate) fn text(family: &str) -> Option<&'static str> {
    FAMILIES.iter().find(|(name, _)| *name == family).map(|(_, text)| *text)
}
